import { Textarea, type TextareaProps } from "@mantine/core";

const MOST_ROWS = 16;

/**
 * As high as what stands in it, between `minRows` and 16 lines. The browser sees to it (styles.css); one that cannot
 * counts the lines. The library's own way lays out the whole text three times whenever anything on the page changes,
 * which of a long one takes longer than a keystroke.
 */
export function GrowingTextarea(
  props: Omit<TextareaProps, "autosize" | "maxRows" | "classNames"> & {
    minRows: number;
    value: string;
    mono?: boolean;
  },
) {
  const { minRows, mono, ...others } = props;
  const lines = props.value.split("\n", MOST_ROWS).length;
  return (
    <Textarea
      {...others}
      rows={Math.max(minRows, lines)}
      classNames={{ input: mono === true ? "grows mono" : "grows" }}
      styles={{ input: { "--min-rows": minRows, "--max-rows": MOST_ROWS } }}
    />
  );
}
