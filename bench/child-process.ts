import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** A file of this folder in a process of its own. It sends a message when it is ready, and answers each message. */
export interface Child {
  /** The message that it sent when it was ready. */
  ready: unknown;
  /** One question at a time. */
  ask: (question: unknown) => Promise<unknown>;
  kill: () => void;
}

export async function startChild(file: string, args: readonly string[] = []): Promise<Child> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args);
  return {
    ready: await message(child, file),
    async ask(question) {
      const answer = message(child, file);
      child.send(question as object);
      return answer;
    },
    kill() {
      child.kill("SIGKILL");
    },
  };
}

async function message(child: ChildProcess, file: string): Promise<unknown> {
  const ended = new AbortController();
  try {
    const [answer] = (await Promise.race([
      once(child, "message", { signal: ended.signal }),
      once(child, "exit", { signal: ended.signal }).then(([code]) => {
        throw new Error(`${file} ended with ${String(code)}`);
      }),
    ])) as unknown[];
    return answer;
  } finally {
    ended.abort();
  }
}
