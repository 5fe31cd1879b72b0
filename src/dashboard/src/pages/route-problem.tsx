import { Anchor, Button, Container, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link, useLocation, useNavigate } from "react-router";
import { get } from "../api.ts";
import { Page } from "../components/page.tsx";

export function NotFound() {
  return (
    <Page title="There is no such page">
      <div>
        <Anchor component={Link} to="/">
          To the overview
        </Anchor>
      </div>
    </Page>
  );
}

/** In place of a page that this user may not use. */
export function NotAllowed({ title, who }: { title: string; who: "owner" | "admin" | undefined }) {
  return (
    <Page title={title}>
      <Text>
        {who === "admin"
          ? "Only administrators of the installation may see this page."
          : "Only owners of the account may see this page."}
      </Text>
    </Page>
  );
}

/** In place of a page that could not be loaded or rendered: after an update its files may be gone. */
export function PageProblem() {
  useReturnWithServer();
  return (
    <Page title="This page could not be shown">
      <Text>Carillon may have been updated, or cannot be reached at the moment.</Text>
      <div>
        <Button onClick={() => location.reload()}>Load again</Button>
      </div>
    </Page>
  );
}

/**
 * Goes to the same page again once the server can be reached, if it could not be at first. Otherwise the reason is
 * another one, and the page would fail for ever.
 */
function useReturnWithServer(): void {
  const navigate = useNavigate();
  const here = useLocation();
  const { isSuccess, errorUpdateCount } = useQuery({
    queryKey: ["reachable"],
    queryFn: () => get("/sign-in"),
    retry: false,
    staleTime: Infinity,
    gcTime: 0,
  });
  const isBack = isSuccess && errorUpdateCount > 0;
  useEffect(() => {
    if (isBack) void navigate(here, { replace: true });
  }, [isBack]);
}

/** The same for what is around the pages. */
export function ShellProblem() {
  return (
    <Container component="main" size="xs" py="xl">
      <PageProblem />
    </Container>
  );
}
