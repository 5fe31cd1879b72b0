/** The value of an option. If it is wrong, says so and ends the program with 2. */
export function wholeNumber(option: string, text: string, least: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  console.error(`--${option}: a whole number of at least ${least}, not ${text}`);
  return process.exit(2);
}
