import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
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

async function message(child: ChildProcess): Promise<unknown> {
  const ended = new AbortController();
  try {
    const [answer] = (await Promise.race([
      once(child, "message", { signal: ended.signal }),
      once(child, "exit", { signal: ended.signal }).then(([code]) => {
        throw new Error(`the sink ended with ${String(code)}`);
      }),
    ])) as unknown[];
    return answer;
  } finally {
    ended.abort();
  }
}
