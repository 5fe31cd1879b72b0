import { Button, Table, Text, TextInput } from "@mantine/core";
import { IconKey, IconPlus, IconTrash } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { call, get, post } from "../api.ts";
import type { ApiKey } from "../api-types.ts";
import { Confirm } from "../components/confirm.tsx";
import { Code } from "../components/copy.tsx";
import { Empty } from "../components/empty.tsx";
import { Moment } from "../components/moment.tsx";
import { OnceModal, useMakeOnce } from "../components/once-modal.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { actionColumn, RowAction } from "../components/row-action.tsx";
import { TableCard } from "../components/table-card.tsx";
import { useKeptDialog, type KeptDialog } from "../kept.ts";
import { useLoaded } from "../loaded.ts";
import { useSession } from "../session.ts";

const KEYS = ["api-keys"];

export function ApiKeysPage() {
  const { user } = useSession();
  const owner = user.role === "owner";
  const creating = useKeptDialog("create", { label: "" });
  const [doomed, setDoomed] = useState<ApiKey>();
  const opener = useRef<HTMLButtonElement>(null);
  const client = useQueryClient();
  const keys = useLoaded({
    queryKey: KEYS,
    queryFn: async () => (await get<{ keys: ApiKey[] }>("/api-keys")).keys,
    refetchInterval: 15_000,
  });
  const create = (
    <Button
      ref={opener}
      leftSection={<IconPlus size={16} />}
      onClick={() => {
        creating.open();
      }}
    >
      Create API key
    </Button>
  );
  return (
    <Page
      title="API keys"
      about="Programs send a key as X-API-Key with each request. Give each of them a key of its own, so that one can be replaced without the others."
      actions={owner && create}
    >
      {keys.isPending && <Waiting rows={4} />}
      {keys.error && <Problem error={keys.error} retry={() => keys.refetch()} />}
      {keys.data?.length === 0 && (
        <Empty icon={<IconKey />} title="No API keys yet" action={owner && create}>
          With a key your programs can send email and passcodes, and make jobs. It is shown once,
          when you create it.
        </Empty>
      )}
      {keys.data && keys.data.length > 0 && (
        <TableCard
          minWidth={700}
          columns={[
            { label: "Label" },
            { label: "Key", width: 190 },
            { label: "Created", width: 150 },
            { label: "Last used", width: 150 },
            ...actionColumn(owner),
          ]}
        >
          {keys.data.map((key) => (
            <Table.Tr key={key.id}>
              <Table.Td className="break">
                {key.label === "" ? (
                  <Text size="sm" c="dimmed" span>
                    no label
                  </Text>
                ) : (
                  <Text size="sm" fw={550} span dir="auto">
                    {key.label}
                  </Text>
                )}
              </Table.Td>
              <Table.Td className="mono">{key.prefix}…</Table.Td>
              <Table.Td data-label="created">
                <Moment at={key.created_at} />
              </Table.Td>
              <Table.Td data-label="used">
                <Moment at={key.last_used_at} />
              </Table.Td>
              {owner && (
                <RowAction
                  danger
                  of={`Delete the key ${nameOf(key)}`}
                  icon={<IconTrash size={14} />}
                  run={() => {
                    setDoomed(key);
                  }}
                >
                  Delete
                </RowAction>
              )}
            </Table.Tr>
          ))}
        </TableCard>
      )}
      <CreateKey form={creating} />
      <Confirm
        opened={doomed !== undefined}
        title="Delete this API key?"
        action="Delete the key"
        returnTo={opener}
        close={() => {
          setDoomed(undefined);
        }}
        run={async () => {
          await call("DELETE", `/api-keys/${doomed?.id}`);
          await client.invalidateQueries({ queryKey: KEYS });
        }}
      >
        <Text className="break">
          <strong dir="auto">{doomed && nameOf(doomed)}</strong> stops working at once, everywhere.
          Programs that still use it are answered 401.
        </Text>
      </Confirm>
    </Page>
  );
}

function CreateKey({ form }: { form: KeptDialog<{ label: string }> }) {
  const { label } = form.typed;
  const create = useMakeOnce(KEYS, form, () =>
    post<{ key: ApiKey; raw: string }>("/api-keys", { label: label.trim() }),
  );
  return (
    <OnceModal
      form={form}
      title={create.data ? "Your new API key" : "Create an API key"}
      action="Create"
      make={create}
      made={({ raw }) => (
        <>
          <Text>
            Copy it now: <strong>it is shown only this once.</strong>
          </Text>
          <Code text={raw} label="API key" wrap copyLabel="Copy the key" />
          <Text size="sm">Try it:</Text>
          <Code text={curl(raw)} label="Example" wrap copyLabel="Copy the command" />
        </>
      )}
    >
      <TextInput
        label="Label"
        description="What will use it: a service, an environment, a person."
        placeholder="billing, production"
        required
        maxLength={100}
        data-autofocus
        value={label}
        onChange={(event) => {
          form.type({ label: event.currentTarget.value });
        }}
      />
    </OnceModal>
  );
}

/** Its label, or the start of the key: the admin command may make keys without a label. */
function nameOf({ label, prefix }: ApiKey): string {
  return label === "" ? `${prefix}…` : label;
}

function curl(key: string): string {
  return `curl -sS ${location.origin}/send \\
  -H 'Content-Type: application/json' \\
  -H 'X-API-Key: ${key}' \\
  -d '{"to":"you@example.com","subject":"Hello","body":"It works."}'`;
}
