/** A cron expression in words; empty if it cannot be said. The library is loaded with the first expression. */
export async function cronWords(expression: string): Promise<string> {
  if (hasEitherDay(expression)) return "";
  const { toString } = await import("cronstrue");
  try {
    return toString(expression, { use24HourTimeFormat: true, verbose: true });
  } catch {
    return "";
  }
}

/**
 * Such an expression fires on days that match day-of-month or day-of-week (docs/decisions/0003). The library's words
 * are those of days that match both, or leave one of them out.
 */
function hasEitherDay(expression: string): boolean {
  const [, , dayOfMonth = "*", , dayOfWeek = "*"] = expression.split(/ +/);
  return dayOfMonth !== "*" && dayOfWeek !== "*";
}
