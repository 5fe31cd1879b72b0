/** One line for the person who started the program. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/**
 * Whoever reads our lines may go first (`npm start | head`). Node would end the process in the middle of
 * everything, and leave a bundled PostgreSQL behind.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
}
