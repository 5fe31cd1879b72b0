import { Card, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** In place of an empty list: says what would be here, and how to get it. */
export function Empty(props: {
  icon: ReactNode;
  title: string;
  children: ReactNode;
  action?: ReactNode;
}) {
  return (
    <Card withBorder className="panel" py="xl">
      <Stack align="center" gap="sm" ta="center" maw={560} mx="auto">
        <ThemeIcon size={48} radius="xl" variant="light" aria-hidden>
          {props.icon}
        </ThemeIcon>
        <Title order={2} size="h4">
          {props.title}
        </Title>
        <Text c="dimmed" size="sm" component="div">
          {props.children}
        </Text>
        {props.action}
      </Stack>
    </Card>
  );
}
