import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { Certificate } from "../../network/certificates.ts";

type Answer = string | null;

/**
 * Answers by the verb of the command; `GREETING` and `END` (of the message) count as verbs. null closes the connection,
 * "hang" says nothing. Verbs that are missing are answered as a friendly server does. A function may take its time.
 */
export type SmtpScript = Readonly<
  Record<string, Answer | undefined | (() => Answer | Promise<Answer>)>
>;

export interface ScriptedServer {
  port: number;
  seen: {
    connections: number;
    closed: number;
    mails: number;
    verbs: string[];
    /** The name in the last EHLO. */
    greetedBy: string | undefined;
    /** The chunks in which the last message arrived; with TLS these are its records. */
    pieces: string[];
  };
  /** Sends a line on every connection, unasked. */
  say(line: string): void;
  /** Reads nothing until `readOn`. */
  stopReading(): void;
  readOn(): void;
  /** Closes every connection without an answer. */
  drop(): void;
  close(): void;
}

const END = "\r\n.\r\n";

/** An SMTP server that answers as scripted, however wrong. It speaks plain text, or TLS from the beginning. */
export async function startScriptedServer(
  script: SmtpScript,
  certificate?: Certificate,
): Promise<ScriptedServer> {
  const sockets = new Set<Socket>();
  const seen: ScriptedServer["seen"] = {
    connections: 0,
    closed: 0,
    mails: 0,
    verbs: [],
    greetedBy: undefined,
    pieces: [],
  };
  const serve = (socket: Socket): void => {
    sockets.add(socket);
    seen.connections += 1;
    socket.on("error", () => undefined);
    socket.on("close", () => {
      seen.closed += 1;
      sockets.delete(socket);
    });
    let message: string | undefined;
    /** Answers are sent in order, however long each takes. */
    let last: Promise<void> = Promise.resolve();
    const say = (verb: string, friendly: string): void => {
      const before = last;
      const next = async (): Promise<void> => {
        await before;
        const scripted = verb in script ? script[verb] : friendly;
        const answer = typeof scripted === "function" ? await scripted() : scripted;
        if (verb === "DATA" && answer?.startsWith("354")) {
          message = "";
          seen.pieces = [];
        }
        if (answer === null) socket.destroy();
        else if (answer !== undefined && answer !== "hang") socket.write(`${answer}\r\n`);
      };
      last = next().catch(() => {
        socket.destroy();
      });
    };
    say("GREETING", "220 hello");
    socket.on("data", (chunk) => {
      const text = chunk.toString("latin1");
      if (message !== undefined) {
        seen.pieces.push(text);
        message = (message + text).slice(-END.length);
        if (!message.endsWith(END)) return;
        message = undefined;
        seen.mails += 1;
        say("END", "250 queued");
        return;
      }
      for (const line of text.split("\r\n").filter((part) => part !== "")) {
        const [verb = "", ...rest] = line.split(" ");
        seen.verbs.push(verb);
        if (verb === "EHLO") seen.greetedBy = rest.join(" ");
        say(verb, verb === "DATA" ? "354 go on" : "250 ok");
      }
    });
  };
  const server = certificate ? createTlsServer(certificate, serve) : createServer(serve);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const drop = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    say: (line) => {
      for (const socket of sockets) socket.write(`${line}\r\n`);
    },
    stopReading: () => {
      for (const socket of sockets) socket.pause();
    },
    readOn: () => {
      for (const socket of sockets) socket.resume();
    },
    drop,
    close: () => {
      drop();
      server.close();
    },
  };
}
