import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useBeforeUnload, useBlocker } from "react-router";

/** Asks before the user goes to another page, while `when` is true. The browser asks before it closes this one. */
export function AskBeforeLeaving({ when, children }: { when: boolean; children: ReactNode }) {
  useBeforeUnload((event) => {
    if (when) event.preventDefault();
  });
  const blocker = useBlocker(
    ({ currentLocation, nextLocation }) =>
      when && currentLocation.pathname !== nextLocation.pathname,
  );
  const stay = () => blocker.reset?.();
  return (
    <Modal
      opened={blocker.state === "blocked"}
      onClose={stay}
      title="Leave this page?"
      closeButtonProps={{ "aria-label": "Close" }}
      centered
    >
      <Stack>
        <Text>{children}</Text>
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={stay}>
            Stay
          </Button>
          <Button color="red.9" onClick={() => blocker.proceed?.()}>
            Leave
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
