/** The value of a series, named with its labels, in the text of `/metrics`; undefined when there is none. */
export function metricValue(text: string, series: string): number | undefined {
  const value = `\n${text}`.split(`\n${series} `)[1]?.split("\n")[0];
  return value === undefined ? undefined : Number(value);
}
