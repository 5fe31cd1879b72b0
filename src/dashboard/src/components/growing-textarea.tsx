import { Textarea, type TextareaProps } from "@mantine/core";

const MOST_ROWS = 16;

/**
 * A text area as high as its text, between `minRows` and 16 lines. The browser does that by `field-sizing`
 * (styles.css); for browsers without it the lines are counted. The library's `autosize` lays out the whole text three
 * times whenever anything on the page changes: with a long text that takes longer than a keystroke.
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
