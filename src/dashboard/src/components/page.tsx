import { Group, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";

/** A page's title, what it is for, and what can be done on it. */
export function Page(props: {
  title: string;
  about?: ReactNode;
  actions?: ReactNode;
  above?: ReactNode;
  children: ReactNode;
}) {
  useDocumentTitle(`${props.title} · Carillon`);
  return (
    <Stack gap="lg" pb="xl">
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} style={{ minWidth: 0 }}>
          {props.above}
          <Title order={1} size="h2" className="break">
            {props.title}
          </Title>
          {props.about !== undefined && (
            <Text c="dimmed" size="sm" maw={720} component="div">
              {props.about}
            </Text>
          )}
        </Stack>
        {props.actions !== undefined && <Group gap="xs">{props.actions}</Group>}
      </Group>
      {props.children}
    </Stack>
  );
}

/** As high as what it stands for, so that nothing jumps when that arrives. */
export function Waiting({ rows = 6 }: { rows?: number }) {
  return (
    <Stack gap="sm" aria-label="Loading" role="status">
      {Array.from({ length: rows }, (_, index) => (
        <Skeleton key={index} height={36} />
      ))}
    </Stack>
  );
}
