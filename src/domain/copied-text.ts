/**
 * The same text as a copy. V8 keeps a text that was cut out of another, or put together from others, with all of them:
 * megabytes of a request, or the same bytes twice for each job.
 */
export function copiedText(text: string): string {
  // One byte for each character, where it has no other characters.
  const narrow = Buffer.from(text, "latin1").toString("latin1");
  return narrow === text ? narrow : Buffer.from(text, "utf16le").toString("utf16le");
}
