/** What `/readyz` says. `starting` is the only one that is not ready. */
export interface ReadinessReport {
  status: "ready" | "degraded" | "starting";
  dependencies: Record<string, "up" | "down">;
}

export type Readiness = () => Promise<ReadinessReport>;

/** Well below a kubelet's probe time-out, 1 s by default, which counts a slow answer as a failure. */
const CHECK_TIMEOUT_MS = 800;

export interface DependencyState {
  name: string;
  /** It answered in time. */
  up: boolean;
  /** It has answered at least once, even if late: a slow database is not one that was never there. */
  reached: boolean;
}

/** Asks each dependency once, all at the same time; one that does not answer in time is down. */
export function createDependencyChecks(
  checks: Readonly<Record<string, () => void | Promise<void>>>,
): () => Promise<DependencyState[]> {
  const reached = new Set<string>();
  let running: Promise<DependencyState[]> | undefined;
  // Probes that overlap share one round of questions.
  return () => {
    running ??= Promise.all(
      Object.entries(checks).map(async ([name, check]) => {
        const up = await responds(async () => {
          await check();
          reached.add(name);
        });
        return { name, up, reached: reached.has(name) };
      }),
    ).finally(() => {
      running = undefined;
    });
    return running;
  };
}

/**
 * Ready once every dependency has answered. A dependency that fails later only makes it `degraded`: all gateways
 * share it, and a Service that loses all its endpoints answers nobody, while a gateway without its database still
 * answers 503 and says why. An `optional` dependency never makes it `starting`, only `degraded`.
 */
export function createReadiness(
  dependencies: () => Promise<DependencyState[]>,
  options: { optional?: readonly string[] } = {},
): Readiness {
  const optional = new Set(options.optional);
  return async () => {
    const states = await dependencies();
    const up = states.every((state) => state.up);
    const started = states.every((state) => state.reached || optional.has(state.name));
    return {
      status: up ? "ready" : started ? "degraded" : "starting",
      dependencies: Object.fromEntries(states.map(({ name, up }) => [name, up ? "up" : "down"])),
    };
  };
}

async function responds(check: () => Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => {
      resolve(false);
    }, CHECK_TIMEOUT_MS);
  });
  const answered = check().then(
    () => true,
    () => false,
  );
  return Promise.race([answered, late]).finally(() => {
    clearTimeout(timer);
  });
}
