import { Center, Group, Loader, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useEffect, useRef, type ReactNode } from "react";
import { useLocation } from "react-router";
import { OnTheWay } from "./on-the-way.tsx";

/** The key of what the browser loaded itself. */
const FIRST_LOCATION = "default";

/** A page's title, what it is for, and what can be done on it. */
export function Page(props: {
  title: string;
  about?: ReactNode;
  actions?: ReactNode;
  above?: ReactNode;
  /** What is shown is what was asked for before. */
  outdated?: boolean;
  children: ReactNode;
}) {
  useDocumentTitle(`${props.title} · Carillon`);
  const heading = useRef<HTMLHeadingElement>(null);
  const { key, pathname } = useLocation();
  // Whoever came by a link is taken to the new page and told its title, as a browser does by itself when
  // it loads one. Filters change the address too, but not the page.
  useEffect(() => {
    if (key !== FIRST_LOCATION) heading.current?.focus({ preventScroll: true });
  }, [pathname]);
  return (
    <Stack gap="lg" pb="xl">
      {props.outdated === true && <OnTheWay />}
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} style={{ minWidth: 0 }}>
          {props.above}
          <Title order={1} size="h2" className="break" ref={heading} tabIndex={-1}>
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

/** In place of everything, as long as it is not known what that will be. */
export function WaitingForAll() {
  return (
    <Center component="main" h="100vh">
      <Loader role="progressbar" aria-label="Loading" />
    </Center>
  );
}
