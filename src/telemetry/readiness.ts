/** What `/readyz` says. `starting` is the only one that is not ready. */
export interface ReadinessReport {
  status: "ready" | "degraded" | "starting";
  dependencies: Record<string, "up" | "down">;
}

export type Readiness = () => Promise<ReadinessReport>;

/** Well below a kubelet's probe time-out of 1 s, which counts a slow answer as a failure. */
const CHECK_TIMEOUT_MS = 800;

/**
 * Ready once every dependency has answered, and from then on: a shared dependency that fails later
 * makes it `degraded`, because a Service that loses all its endpoints answers nobody, while a gateway
 * without its database still says 503 and why. Checks that overlap share one round of questions.
 */
export function createReadiness(
  checks: Readonly<Record<string, () => void | Promise<void>>>,
): Readiness {
  let wasReady = false;
  let running: Promise<ReadinessReport> | undefined;
  async function ask(): Promise<ReadinessReport> {
    const answers = await Promise.all(
      Object.entries(checks).map(
        async ([name, check]) => [name, (await responds(check)) ? "up" : "down"] as const,
      ),
    );
    const up = answers.every(([, state]) => state === "up");
    wasReady ||= up;
    return {
      status: up ? "ready" : wasReady ? "degraded" : "starting",
      dependencies: Object.fromEntries(answers),
    };
  }
  return () => {
    running ??= ask().finally(() => {
      running = undefined;
    });
    return running;
  };
}

async function responds(check: () => void | Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => {
      resolve(false);
    }, CHECK_TIMEOUT_MS);
  });
  const answered = Promise.resolve()
    .then(check)
    .then(
      () => true,
      () => false,
    );
  return Promise.race([answered, late]).finally(() => {
    clearTimeout(timer);
  });
}
