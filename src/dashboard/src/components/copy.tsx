import { Box, Button, CopyButton } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** Copies a text; says so. */
export function Copy({ value, label = "Copy" }: { value: string; label?: string }) {
  return (
    <CopyButton value={value} timeout={2_000}>
      {({ copied, copy }) => (
        <Button
          size="xs"
          variant="default"
          onClick={copy}
          leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
        >
          {copied ? "Copied" : label}
        </Button>
      )}
    </CopyButton>
  );
}

/** Code to read and to copy. */
export function Code(props: { text: string; label: string; wrap?: boolean; copyLabel?: string }) {
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
        <Copy value={props.text} label={props.copyLabel ?? `Copy`} />
      </Box>
    </Box>
  );
}
