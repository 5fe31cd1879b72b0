/** Steps that end what was started, the last started first. */
export interface Shutdown {
  /** Adds a step. If it fails, that is reported, and the others run all the same. */
  add(name: string, end: () => Promise<void> | void): void;
  run(): Promise<void>;
}

export function createShutdown(onError = tell): Shutdown {
  const steps: { name: string; end: () => Promise<void> | void }[] = [];
  let running: Promise<void> | undefined;
  async function endAll(): Promise<void> {
    for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
      try {
        await step.end();
      } catch (error) {
        onError(step.name, error);
      }
    }
  }
  return {
    add(name, end) {
      steps.push({ name, end });
    },
    run: () => (running ??= endAll()),
  };
}

function tell(name: string, error: unknown): void {
  process.stderr.write(`carillon: ${name} did not end well: ${String(error)}\n`);
}
