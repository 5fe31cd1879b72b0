import { ActionIcon, Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useId, useState } from "react";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { ShowButton } from "../components/show-button.tsx";
import type { JobDraft } from "./job-draft.ts";

/** The headers of a webhook, one per line. Saved values are often secrets: they are masked until they are shown. */
export function JobHeaders(props: {
  headers: JobDraft["webhook_headers"];
  saved: JobDraft["webhook_headers"];
  error: string | undefined;
  change: (headers: JobDraft["webhook_headers"]) => void;
}) {
  const { headers, change } = props;
  const problem = useId();
  const [shown, setShown] = useState(false);
  const isSaved = ({ value }: { value: string }) =>
    value !== "" && props.saved.some((saved) => saved.value === value);
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
            classNames={{ input: !shown && isSaved(header) ? "masked" : "" }}
            autoComplete="off"
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
      <Group gap="xs">
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
        {headers.some(isSaved) && (
          <ShowButton of="the values of the headers" shown={shown} show={setShown} />
        )}
      </Group>
    </Stack>
  );
}
