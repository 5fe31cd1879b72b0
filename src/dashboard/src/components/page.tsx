import { Center, Group, Loader, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useEffect, useRef, type ReactNode } from "react";
import { useLocation } from "react-router";
import { OnTheWay } from "./on-the-way.tsx";

/** Whether no page has been shown yet since the browser loaded the program. It announces the first one by itself. */
let isFirst = true;

/** For what is shown in place of a page, too: the page that comes after it is not announced by the browser. */
export function noteFirstPageShown(): void {
  isFirst = false;
}

/** A page, with its title, what it is for, and what can be done on it. */
export function Page(props: {
  title: string;
  about?: ReactNode;
  actions?: ReactNode;
  above?: ReactNode;
  /** The page still shows the answer to an earlier question. */
  outdated?: boolean;
  children: ReactNode;
}) {
  useDocumentTitle(`${props.title} · Carillon`);
  const heading = useRef<HTMLHeadingElement>(null);
  const { pathname } = useLocation();
  // After a link or a sign-in the focus goes to the new page's title, so that a screen reader reads it out, as it does
  // when the browser loads a page. Filters change the address, but not the path.
  useEffect(() => {
    if (!isFirst) heading.current?.focus({ preventScroll: true });
    noteFirstPageShown();
  }, [pathname]);
  return (
    <Stack gap="lg" pb="xl">
      {props.outdated === true && <OnTheWay />}
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} style={{ minWidth: 0 }}>
          {props.above}
          <Title order={1} size="h2" className="break" ref={heading} tabIndex={-1}>
            {/* A name may run from right to left. */}
            <bdi>{props.title}</bdi>
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

/** In place of what is being loaded, and about as high, so that nothing jumps when that arrives. */
export function Waiting({ rows = 6 }: { rows?: number }) {
  return (
    <Stack gap="sm" aria-label="Loading" role="status">
      {Array.from({ length: rows }, (_, index) => (
        <Skeleton key={index} height={36} />
      ))}
    </Stack>
  );
}

/** In place of the whole window, while it is not known what to show. */
export function WaitingForAll() {
  return (
    <Center component="main" h="100vh">
      <Loader role="progressbar" aria-label="Loading" />
    </Center>
  );
}
