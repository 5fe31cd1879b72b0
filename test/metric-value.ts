/** Of the exposition text of `/metrics`: the value of a series, named with its labels; undefined when there is none. */
export function metricValue(text: string, series: string): number | undefined {
  const value = `\n${text}`.split(`\n${series} `)[1]?.split("\n")[0];
  return value === undefined ? undefined : Number(value);
}
