import { startChild } from "./child-process.ts";

export interface Sink {
  port: number;
  /** Asks the sink for what it counts. */
  ask(question: string): Promise<unknown>;
  close(): void;
}

/** A sink in a process of its own, so that it takes no time from the program that is measured. */
export async function startSink(name: "http-sink" | "smtp-sink"): Promise<Sink> {
  const { ready, ask, kill } = await startChild(`${name}.ts`);
  return { port: (ready as { port: number }).port, ask, close: kill };
}
