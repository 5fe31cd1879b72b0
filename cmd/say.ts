/** One line for the person who started the program. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
