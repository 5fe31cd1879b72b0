import { Alert, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { ApiError } from "../api.ts";
import { BusyButton } from "./busy-button.tsx";

/** Says why something did not work, in the server's words. */
export function Problem({
  error,
  labels = {},
  retry,
}: {
  error: Error;
  /** What fields are called on the page, unless almost like their name. */
  labels?: Readonly<Record<string, string>>;
  retry?: () => Promise<unknown>;
}) {
  const details = error instanceof ApiError ? error.details : [];
  return (
    <Alert color="red" variant="light" icon={<IconAlertTriangle aria-hidden />} role="alert">
      <Stack gap={4} align="flex-start">
        {details.length > 0 ? (
          details.map(({ field, message }) => (
            <Text key={field + message} size="sm" className="break">
              {sentence(about(field, labels) + message)}
            </Text>
          ))
        ) : (
          <Text size="sm" className="break">
            {sentence(error.message)}
          </Text>
        )}
        {retry && <Retry run={retry} />}
      </Stack>
    </Alert>
  );
}

function Retry({ run }: { run: () => Promise<unknown> }) {
  const again = useMutation({ mutationFn: run });
  return (
    <BusyButton
      size="xs"
      variant="default"
      busy={again.isPending}
      onClick={() => {
        again.mutate();
      }}
    >
      Try again
    </BusyButton>
  );
}

/** `Retries: ` for a field with a label; without one, its name: `current password `. */
function about(field: string, labels: Readonly<Record<string, string>>): string {
  const [name = "", ...inside] = field.split(".");
  const label = Object.hasOwn(labels, name) ? labels[name] : undefined;
  if (label !== undefined) return `${[label, ...inside].join(" ")}: `;
  return field === "" ? "" : `${field.replaceAll("_", " ")} `;
}

/** Makes a sentence of the server's words, which begin in lower case and have no full stop. */
export function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
