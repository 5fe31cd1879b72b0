import { Center, Group, Loader, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useEffect, useRef, type ReactNode } from "react";
import { useLocation } from "react-router";
import { OnTheWay } from "./on-the-way.tsx";

/** Whether what the browser has loaded is still to be shown: it tells its title, and begins at its top. */
let first = true;

/** What stands in place of a page has been shown: the browser does not tell what comes after it. */
export function firstIsShown(): void {
  first = false;
}

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
  const { pathname } = useLocation();
  // Whoever came by a link, or has signed in, is taken to the new page and told its title, as a browser does by
  // itself when it loads one. Filters change the address too, but not the page.
  useEffect(() => {
    if (!first) heading.current?.focus({ preventScroll: true });
    firstIsShown();
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
            <Text c="dimmed" size="sm" maw={720} component="div" className="break">
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
