import { ActionIcon, Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useId } from "react";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import type { JobDraft } from "./job-draft.ts";

/** The headers of a webhook, one per line. */
export function JobHeaders(props: {
  headers: JobDraft["webhook_headers"];
  error: string | undefined;
  change: (headers: JobDraft["webhook_headers"]) => void;
}) {
  const { headers, change } = props;
  const problem = useId();
  const edit = (index: number, part: Partial<{ name: string; value: string }>) => {
    change(headers.map((header, at) => (at === index ? { ...header, ...part } : header)));
  };
  return (
    <Stack
      gap="xs"
      role="group"
      aria-label="Headers"
      aria-describedby={props.error === undefined ? undefined : problem}
    >
      {headers.map((header, index) => (
        <Group key={index} gap="xs" wrap="nowrap">
          <TextInput
            aria-label={`Header ${index + 1} name`}
            placeholder="Authorization"
            flex={1}
            value={header.name}
            onChange={(event) => {
              edit(index, { name: event.currentTarget.value });
            }}
          />
          <TextInput
            aria-label={`Header ${index + 1} value`}
            placeholder="Bearer …"
            flex={2}
            value={header.value}
            onChange={(event) => {
              edit(index, { value: event.currentTarget.value });
            }}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            size="lg"
            aria-label={`Remove header ${index + 1}`}
            onClick={() => {
              change(headers.filter((_, at) => at !== index));
            }}
          >
            <IconTrash size={16} />
          </ActionIcon>
        </Group>
      ))}
      {props.error !== undefined && (
        <Text size="xs" c="var(--mantine-color-error)" className="break" id={problem}>
          {props.error}
        </Text>
      )}
      <div>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPlus size={14} />}
          onClick={() => {
            change([...headers, { name: "", value: "" }]);
          }}
        >
          Add a header
        </Button>
      </div>
    </Stack>
  );
}
