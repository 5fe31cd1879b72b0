import { Box, Button, Text } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** A button that copies a text, and says that it did. */
export function Copy({ value, label = "Copy" }: { value: string; label?: string }) {
  const { copied, copy, error } = useClipboard({ timeout: 2_000 });
  return (
    <>
      <Button
        size="xs"
        variant="default"
        onClick={() => {
          copy(value);
        }}
        leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
      >
        {copied ? "Copied" : label}
      </Button>
      {error && (
        <Text size="sm" c="var(--mantine-color-error)" role="alert" mt={6}>
          The browser did not allow it. Select the text and copy it yourself.
        </Text>
      )}
    </>
  );
}

/** Code, with a button to copy it. */
export function Code(props: {
  text: string;
  /** What the button copies, if the text is masked. */
  copied?: string;
  label: string;
  wrap?: boolean;
  copyLabel?: string;
}) {
  return (
    <Box>
      <pre
        className={props.wrap === true ? "code wrap" : "code"}
        tabIndex={0}
        role="region"
        aria-label={props.label}
      >
        {props.text}
      </pre>
      <Box mt={6}>
        <Copy value={props.copied ?? props.text} label={props.copyLabel ?? `Copy`} />
      </Box>
    </Box>
  );
}
