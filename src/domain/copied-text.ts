/**
 * The same text as a copy. V8 keeps a text that was cut out of another, or put together from others, with all of them,
 * which adds up where there is one for each job. Texts with characters beyond Latin-1 are returned as they are.
 */
export function copiedText(text: string): string {
  const copy = Buffer.from(text, "latin1").toString("latin1");
  return copy === text ? copy : text;
}
