import { Button, Table, Text, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { get, post } from "../api.ts";
import type { Account } from "../api-types.ts";
import { Code } from "../components/copy.tsx";
import { Moment } from "../components/moment.tsx";
import { OnceModal, useMakeOnce } from "../components/once-modal.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { actionColumn, RowAction } from "../components/row-action.tsx";
import { TableCard } from "../components/table-card.tsx";
import { useKeptDialog, type KeptDialog } from "../kept.ts";
import { useLoaded } from "../loaded.ts";
import { useSession } from "../session.ts";
import { BindAccount, type Binding } from "./bind-account.tsx";

const ACCOUNTS = ["accounts"];

export function AccountsPage() {
  const { installation } = useSession();
  const creating = useKeptDialog("create", { name: "", namespace: "", email: "" });
  const binding = useKeptDialog<Binding>("bind", { account: undefined, namespace: "" });
  const accounts = useLoaded({
    queryKey: ACCOUNTS,
    queryFn: async () => (await get<{ accounts: Account[] }>("/accounts")).accounts,
  });
  return (
    <Page
      title="Accounts"
      about="Everybody who shares this installation. Accounts see nothing of each other."
      actions={
        <Button
          leftSection={<IconPlus size={16} />}
          onClick={() => {
            creating.open();
          }}
        >
          Create account
        </Button>
      }
    >
      {accounts.isPending && <Waiting rows={4} />}
      {accounts.error && <Problem error={accounts.error} retry={() => accounts.refetch()} />}
      {accounts.data && (
        <TableCard
          minWidth={480}
          columns={[
            { label: "Name" },
            ...(installation.kubernetes ? [{ label: "Namespace" }] : []),
            { label: "Time zone" },
            { label: "Created", width: 150 },
            ...actionColumn(installation.kubernetes, 110),
          ]}
        >
          {accounts.data.map((account) => (
            <Table.Tr key={account.id}>
              <Table.Td className="break wide">{account.name}</Table.Td>
              {installation.kubernetes && <Table.Td>{account.namespace ?? "none"}</Table.Td>}
              <Table.Td>{account.time_zone}</Table.Td>
              <Table.Td data-label="created">
                <Moment at={account.created_at} />
              </Table.Td>
              {installation.kubernetes && (
                <RowAction
                  of={`Bind ${account.name} to a namespace`}
                  run={() => {
                    binding.open({ account });
                  }}
                >
                  {account.namespace === null ? "Bind" : "Move"}
                </RowAction>
              )}
            </Table.Tr>
          ))}
        </TableCard>
      )}
      <BindAccount form={binding} />
      <CreateAccount form={creating} />
    </Page>
  );
}

function CreateAccount({
  form,
}: {
  form: KeptDialog<{ name: string; namespace: string; email: string }>;
}) {
  const { installation } = useSession();
  const { name, namespace, email } = form.typed;
  const create = useMakeOnce(ACCOUNTS, form, () =>
    post<{ account: Account; link: string }>("/accounts", {
      name: name.trim(),
      owner_email: email.trim(),
      ...(namespace.trim() === "" ? {} : { namespace: namespace.trim() }),
    }),
  );
  return (
    <OnceModal
      form={form}
      title={create.data ? `Account ${create.data.account.name} created` : "Create an account"}
      action="Create"
      make={create}
      made={({ link }) => (
        <>
          <Text>
            Give this link to the owner. It is valid for seven days and{" "}
            <strong>shown only now</strong>.
          </Text>
          <Code text={link} label="Invitation link" wrap copyLabel="Copy the link" />
        </>
      )}
    >
      <TextInput
        label="Name"
        required
        maxLength={64}
        data-autofocus
        value={name}
        onChange={(event) => {
          form.type({ name: event.currentTarget.value });
        }}
      />
      {installation.kubernetes && (
        <TextInput
          label="Kubernetes namespace"
          description="The account's jobs are the ScheduledJobs of this namespace."
          value={namespace}
          onChange={(event) => {
            form.type({ namespace: event.currentTarget.value });
          }}
        />
      )}
      <TextInput
        label="Owner's email"
        description="Becomes the owner with the link that you get next."
        type="email"
        required
        value={email}
        onChange={(event) => {
          form.type({ email: event.currentTarget.value });
        }}
      />
    </OnceModal>
  );
}
