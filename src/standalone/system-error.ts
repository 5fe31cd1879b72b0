/** Whether it is the system's error of this code, such as `ENOENT`. */
export function isSystemError(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
