import { Button, Group, Modal, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Problem } from "./problem.tsx";

/** Asks before something that cannot be taken back. */
export function Confirm(props: {
  opened: boolean;
  title: string;
  action: string;
  children: ReactNode;
  disabled?: boolean;
  run: () => Promise<unknown>;
  close: () => void;
}) {
  const run = useMutation({ mutationFn: props.run, onSuccess: props.close });
  return (
    <Modal
      opened={props.opened}
      onClose={() => {
        run.reset();
        props.close();
      }}
      title={props.title}
      closeButtonProps={{ "aria-label": "Close" }}
      centered
    >
      <Stack>
        {props.children}
        {run.error && <Problem error={run.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={props.close}>
            Cancel
          </Button>
          <Button
            color="red.9"
            disabled={props.disabled ?? false}
            loading={run.isPending}
            onClick={() => {
              run.mutate();
            }}
          >
            {props.action}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
