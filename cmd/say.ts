/** One line for the person who started the program. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/**
 * The same, but rejects when it cannot be written, for instance to a full disk. If the reader has gone, that is no
 * failure.
 */
export function write(line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(`${line}\n`, (error) => {
      if (error && (error as NodeJS.ErrnoException).code !== "EPIPE") reject(error);
      else resolve();
    });
  });
}

/**
 * The reader of our output may end before us (`npm start | head`). Without this Node would then end the process in the
 * middle of everything, and leave a bundled PostgreSQL behind.
 */
export function ignoreClosedReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
}
