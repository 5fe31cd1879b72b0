/** Whether it is this that the system said no with: `ENOENT`, `EADDRINUSE`. */
export function isSystemError(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
