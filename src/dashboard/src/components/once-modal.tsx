import { Button, Group, Modal, Stack } from "@mantine/core";
import {
  useMutation,
  useQueryClient,
  type QueryKey,
  type UseMutationResult,
} from "@tanstack/react-query";
import type { ReactNode } from "react";
import { AskBeforeLeaving } from "./ask-before-leaving.tsx";
import type { KeptDialog } from "../kept.ts";
import { useLastOpened } from "./last-opened.ts";
import { Submit } from "./submit.tsx";

/**
 * The mutation of an `OnceModal`. Afterwards `form` is not unsaved any more, and `list` is loaded again, but not waited
 * for: what was made is shown only once, and must be shown even if the list cannot be loaded.
 */
export function useMakeOnce<T>(list: QueryKey, form: { drop: () => void }, make: () => Promise<T>) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: make,
    onSuccess: () => {
      form.drop();
      void client.invalidateQueries({ queryKey: list });
    },
  });
}

/**
 * A form that makes something that is shown only once: a key, a link. It cannot be closed while that is being made,
 * because it would be lost, and afterwards not by accident. Whoever leaves the page is asked.
 */
export function OnceModal<T extends object>(props: {
  form: KeptDialog<object>;
  title: string;
  /** On the form's button. */
  action: string;
  make: UseMutationResult<T, Error, void>;
  /** Shows what was made. */
  made: (made: T) => ReactNode;
  /** The form's fields. */
  children: ReactNode;
}) {
  const { opened } = props.form;
  const { isPending, isSuccess } = props.make;
  const { title, action, make, made, children } = useLastOpened({ ...props, opened });
  const close = () => {
    props.form.close();
    props.make.reset();
  };
  return (
    <>
      <Modal
        opened={opened}
        onClose={close}
        title={title}
        size="lg"
        closeOnClickOutside={!isPending && !isSuccess}
        closeOnEscape={!isPending && !isSuccess}
        withCloseButton={!isPending}
        closeButtonProps={{ "aria-label": "Close" }}
      >
        {make.data ? (
          <Stack>
            {made(make.data)}
            <Group justify="flex-end">
              <Button onClick={close}>Done</Button>
            </Group>
          </Stack>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              make.mutate();
            }}
          >
            <Stack>
              {children}
              <Submit by={make}>{action}</Submit>
            </Stack>
          </form>
        )}
      </Modal>
      <AskBeforeLeaving when={isPending || isSuccess}>
        What is made here is shown only this once: when you leave, it is lost.
      </AskBeforeLeaving>
    </>
  );
}
