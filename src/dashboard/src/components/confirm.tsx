import { Button, Group, Modal, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, type ReactNode, type RefObject } from "react";
import { BusyButton } from "./busy-button.tsx";
import { Problem } from "./problem.tsx";

/** Asks before something that cannot be taken back. */
export function Confirm(props: {
  opened: boolean;
  title: string;
  action: string;
  children: ReactNode;
  disabled?: boolean;
  /** What takes the focus afterwards if what opened it is gone by then: the item of a menu, the row that was deleted. */
  returnTo?: RefObject<HTMLElement | null>;
  run: () => Promise<unknown>;
  close: () => void;
}) {
  const run = useMutation({ mutationFn: props.run, onSuccess: props.close });
  const leave = () => {
    run.reset();
    props.close();
  };
  const opener = useRef<Element>(null);
  useEffect(() => {
    if (props.opened) opener.current = document.activeElement;
  }, [props.opened]);
  return (
    <Modal
      opened={props.opened}
      onClose={leave}
      onExitTransitionEnd={() => {
        const { current } = opener;
        if (current === document.body || current?.isConnected !== true)
          props.returnTo?.current?.focus();
      }}
      title={props.title}
      closeButtonProps={{ "aria-label": "Close" }}
      centered
    >
      <Stack>
        {props.children}
        {run.error && <Problem error={run.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={leave}>
            Cancel
          </Button>
          <BusyButton
            color="red.9"
            disabled={props.disabled ?? false}
            busy={run.isPending}
            onClick={() => {
              run.mutate();
            }}
          >
            {props.action}
          </BusyButton>
        </Group>
      </Stack>
    </Modal>
  );
}
