import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";

export interface Sink {
  port: number;
  /** Asks the sink; it answers with whatever it counts. */
  ask(question: string): Promise<unknown>;
  close(): void;
}

/** A sink in a process of its own: what it costs must not be taken from the program that is measured. */
export async function startSink(name: "http-sink" | "smtp-sink"): Promise<Sink> {
  const child = fork(fileURLToPath(new URL(`${name}.ts`, import.meta.url)));
  const { port } = (await message(child)) as { port: number };
  return {
    port,
    async ask(question) {
      const answer = message(child);
      child.send(question);
      return answer;
    },
    close() {
      child.kill();
    },
  };
}

function message(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    child.once("message", resolve);
    child.once("exit", (code) => {
      reject(new Error(`the sink ended with ${code}`));
    });
  });
}
