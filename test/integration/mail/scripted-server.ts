import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";

/**
 * Answers by the command's verb, `GREETING` and `END` (of the message) among them; null closes, "hang"
 * says nothing, what is not there is answered as a friendly server would.
 */
export type SmtpScript = Readonly<Record<string, string | null | undefined>>;

export interface ScriptedServer {
  port: number;
  seen: { connections: number; closed: number; mails: number; verbs: string[] };
  /** Closes every connection, without a word. */
  drop(): void;
  close(): void;
}

/** A server that does what a decent one never would. It speaks plain text only. */
export async function startScriptedServer(script: SmtpScript): Promise<ScriptedServer> {
  const sockets = new Set<Socket>();
  const seen: ScriptedServer["seen"] = { connections: 0, closed: 0, mails: 0, verbs: [] };
  const server = createServer((socket) => {
    sockets.add(socket);
    seen.connections += 1;
    socket.on("error", () => undefined);
    socket.on("close", () => {
      seen.closed += 1;
      sockets.delete(socket);
    });
    let message: string | undefined;
    const say = (answer: string | null | undefined): void => {
      if (answer === null) socket.destroy();
      else if (answer !== undefined && answer !== "hang") socket.write(`${answer}\r\n`);
    };
    say("GREETING" in script ? script["GREETING"] : "220 hello");
    socket.on("data", (chunk) => {
      const text = chunk.toString("latin1");
      if (message !== undefined) {
        message += text;
        if (!message.endsWith("\r\n.\r\n")) return;
        message = undefined;
        seen.mails += 1;
        say("END" in script ? script["END"] : "250 queued");
        return;
      }
      for (const line of text.split("\r\n").filter((part) => part !== "")) {
        const verb = line.split(" ")[0] ?? "";
        seen.verbs.push(verb);
        const answer = verb in script ? script[verb] : verb === "DATA" ? "354 go on" : "250 ok";
        if (verb === "DATA" && answer?.startsWith("354")) message = "";
        say(answer);
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const drop = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    drop,
    close: () => {
      drop();
      server.close();
    },
  };
}
