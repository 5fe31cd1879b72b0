import { Button, Group, Modal, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, type ReactNode, type RefObject } from "react";
import { BusyButton } from "./busy-button.tsx";
import { useLastOpened } from "./last-opened.ts";
import { Problem } from "./problem.tsx";

/** Asks before something is done that cannot be undone. */
export function Confirm(props: {
  opened: boolean;
  title: string;
  action: string;
  children: ReactNode;
  disabled?: boolean;
  /** Takes the focus afterwards if what opened the dialog no longer exists: a menu's item, or the deleted row. */
  returnTo?: RefObject<HTMLElement | null>;
  run: () => Promise<unknown>;
  close: () => void;
}) {
  const shown = useLastOpened(props);
  const run = useMutation({ mutationFn: props.run, onSuccess: props.close });
  // Not while the action is under way: Cancel could not undo it, and its success would close the dialog opened next.
  const leave = () => {
    if (run.isPending) return;
    run.reset();
    props.close();
  };
  const opener = useRef<Element>(null);
  /** The opener, if it was still there when the dialog had gone. */
  const watched = useRef<Element>(null);
  useEffect(() => {
    if (props.opened) opener.current = document.activeElement;
  }, [props.opened]);
  // The deleted row may go only after the dialog: in the next frame, or when a list that lagged behind is loaded again.
  useEffect(() => {
    if (watched.current?.isConnected !== false) return;
    watched.current = null;
    if (document.activeElement === document.body) props.returnTo?.current?.focus();
  });
  return (
    <Modal
      opened={props.opened}
      onClose={leave}
      onExitTransitionEnd={() => {
        const { current } = opener;
        if (current === document.body || current?.isConnected !== true)
          props.returnTo?.current?.focus();
        else watched.current = current;
      }}
      title={shown.title}
      withCloseButton={!run.isPending}
      closeButtonProps={{ "aria-label": "Close" }}
      centered
    >
      <Stack>
        {shown.children}
        {run.error && <Problem error={run.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={leave} aria-disabled={run.isPending}>
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
            {shown.action}
          </BusyButton>
        </Group>
      </Stack>
    </Modal>
  );
}
