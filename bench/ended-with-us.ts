/** What runs beside a benchmark and has to end with it, also when somebody ends the benchmark. */
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
