/** One line for the person who started the program. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** The same, and rejects when it cannot be written: a disk that is full. A reader that has gone needs it no longer. */
export function write(line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(`${line}\n`, (error) => {
      if (error && (error as NodeJS.ErrnoException).code !== "EPIPE") reject(error);
      else resolve();
    });
  });
}

/**
 * Whoever reads our lines may go first (`npm start | head`). Node would end the process in the middle of
 * everything, and leave a bundled PostgreSQL behind.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
}
