import { Anchor, Button, Container, Stack, Text, Title } from "@mantine/core";
import { Link } from "react-router";

export function NotFound() {
  return (
    <Stack align="flex-start">
      <Title order={1}>There is no such page</Title>
      <Anchor component={Link} to="/">
        To the overview
      </Anchor>
    </Stack>
  );
}

/** A page that could not be loaded or drawn: after an update its files may be gone. */
export function RouteProblem() {
  return (
    <Container size="xs" py="xl">
      <Stack align="flex-start">
        <Title order={1}>This page could not be shown</Title>
        <Text>Carillon may have been updated, or cannot be reached at the moment.</Text>
        <Button onClick={() => location.reload()}>Load again</Button>
      </Stack>
    </Container>
  );
}
