/** Whether it is the system's error of this code, such as `ENOENT`. */
export function isSystemError(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

/** Of a write that fails, as on a full disk, Node does not say which file it was to: adds the path, if there is none. */
export function naming(path: string, error: unknown): unknown {
  if (error instanceof Error && !("path" in error)) {
    error.message += ` '${path}'`;
    Object.assign(error, { path });
  }
  return error;
}
