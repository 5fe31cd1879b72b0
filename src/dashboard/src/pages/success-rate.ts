/** In percent, to a tenth. 100 % only if all succeeded, 0 % only if none did, however many there are. */
export function successRate(good: number, bad: number): string {
  if (good + bad === 0) return "–";
  if (bad === 0) return "100 %";
  const rate = (100 * good) / (good + bad);
  const shown = good === 0 ? 0 : Math.min(Math.max(rate, 0.1), 99.9);
  return `${shown.toFixed(1)} %`;
}
