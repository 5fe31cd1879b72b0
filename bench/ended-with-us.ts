/** Ends what runs beside a benchmark together with it, also when the benchmark is interrupted. */
const endings = new Set<() => Promise<void>>();

for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => {
    void Promise.allSettled(Array.from(endings, (end) => end())).then(() => process.exit(130));
  });

export async function endedWithUs<T>(end: () => Promise<void>, work: () => Promise<T>): Promise<T> {
  endings.add(end);
  try {
    return await work();
  } finally {
    endings.delete(end);
    await end();
  }
}
