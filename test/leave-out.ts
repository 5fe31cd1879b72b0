/** What a machine does not have is skipped loudly, and is an error under CI=true. `what` says which tests, and why. */
export function leaveOut(what: string, say: (line: string) => void = console.warn): void {
  if (process.env["CI"] === "true") throw new Error(what);
  say(`SKIPPED: ${what}`);
}
