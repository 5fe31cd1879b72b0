import { Modal } from "@mantine/core";
import type { ReactNode } from "react";
import { useLastOpened } from "./last-opened.ts";

/**
 * Makes something that is shown only once: a key, a link. It cannot be closed while that is made, which
 * would lose it, and afterwards not by accident.
 */
export function OnceModal(props: {
  opened: boolean;
  title: string;
  making: boolean;
  made: boolean;
  close: () => void;
  children: ReactNode;
}) {
  const { opened, making, made, close } = props;
  const { title, children } = useLastOpened(props);
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={title}
      size="lg"
      closeOnClickOutside={!making && !made}
      closeOnEscape={!making && !made}
      withCloseButton={!making}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {children}
    </Modal>
  );
}
