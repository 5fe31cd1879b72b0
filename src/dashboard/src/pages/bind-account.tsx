import { Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { post } from "../api.ts";
import type { Account } from "../api-types.ts";
import { useLastOpened } from "../components/last-opened.ts";
import { Submit } from "../components/submit.tsx";
import type { KeptDialog } from "../kept.ts";

export interface Binding {
  /** Undefined while the dialog is closed. */
  account: Account | undefined;
  namespace: string;
}

/** A dialog that binds an account to a namespace. */
export function BindAccount({ form }: { form: KeptDialog<Binding> }) {
  const { opened, close } = form;
  const { namespace } = form.typed;
  const { account } = useLastOpened({ opened, account: form.typed.account });
  const client = useQueryClient();
  const bind = useMutation({
    mutationFn: () =>
      post<Account>(`/accounts/${account?.id ?? ""}/namespace`, { namespace: namespace.trim() }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["accounts"] });
      close();
    },
  });
  // Not while the request is under way: its success would close the dialog opened next.
  const leave = () => {
    if (bind.isPending) return;
    close();
    bind.reset();
  };
  return (
    <Modal
      opened={opened}
      onClose={leave}
      title={`Bind ${account?.name ?? ""} to a namespace`}
      size="lg"
      withCloseButton={!bind.isPending}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          bind.mutate();
        }}
      >
        <Stack>
          {typeof account?.namespace === "string" && (
            <Text className="break">
              It is bound to <strong>{account.namespace}</strong> now, and can move once there are
              no ScheduledJobs left there.
            </Text>
          )}
          <TextInput
            label="Kubernetes namespace"
            description="The account's jobs are the ScheduledJobs of this namespace."
            required
            maxLength={63}
            data-autofocus
            value={namespace}
            onChange={(event) => {
              form.type({ namespace: event.currentTarget.value });
            }}
          />
          <Submit by={bind}>Bind</Submit>
        </Stack>
      </form>
    </Modal>
  );
}
