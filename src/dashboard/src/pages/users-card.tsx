import {
  Badge,
  Button,
  Card,
  Checkbox,
  Group,
  Select,
  Stack,
  Table,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { IconUserPlus } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { call, get, post } from "../api.ts";
import type { Invitation, User } from "../api-types.ts";
import { Confirm } from "../components/confirm.tsx";
import { Code } from "../components/copy.tsx";
import { DataTable } from "../components/data-table.tsx";
import { Moment } from "../components/moment.tsx";
import { OnceModal, useMakeOnce } from "../components/once-modal.tsx";
import { Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { actionColumn, RowAction } from "../components/row-action.tsx";
import { useKeptDialog, type KeptDialog } from "../kept.ts";
import { useLoaded } from "../loaded.ts";
import { useSession } from "../session.ts";
import { RoleSelect } from "./role-select.tsx";

const USERS = ["users"];

/** The users of the account, and those who are invited. */
export function UsersCard() {
  const me = useSession().user;
  const owner = me.role === "owner";
  const inviting = useKeptDialog("invite", { email: "", role: "member", send: false });
  const [doomed, setDoomed] = useState<{ path: string; email: string; invited: boolean }>();
  const opener = useRef<HTMLButtonElement>(null);
  const client = useQueryClient();
  const users = useLoaded({
    queryKey: USERS,
    queryFn: () => get<{ users: User[]; invitations: Invitation[] }>("/users"),
  });
  return (
    <Card withBorder className="panel">
      <Stack>
        <Group justify="space-between">
          <Title order={2} size="h4">
            Users
          </Title>
          {owner && (
            <Button
              ref={opener}
              variant="default"
              leftSection={<IconUserPlus size={16} />}
              onClick={() => {
                inviting.open();
              }}
            >
              Invite
            </Button>
          )}
        </Group>
        <Text size="sm" c="dimmed">
          Owners may do everything. Members work with jobs and logs, and see which API keys there
          are.
        </Text>
        {users.isPending && <Waiting rows={2} />}
        {users.error && <Problem error={users.error} retry={() => users.refetch()} />}
        {users.data && (
          <DataTable
            minWidth={520}
            columns={[
              { label: "Email" },
              { label: "Role", width: 130 },
              { label: "Since", width: 150 },
              ...actionColumn(owner),
            ]}
          >
            {users.data.users.map((user) => (
              <Table.Tr key={user.id}>
                <Table.Td className="break wide">
                  {user.email}
                  {user.id === me.id && " (you)"}
                </Table.Td>
                <Table.Td>{owner ? <RoleSelect user={user} /> : user.role}</Table.Td>
                <Table.Td data-label="since">
                  <Moment at={user.created_at} />
                </Table.Td>
                {owner && user.id === me.id && <Table.Td />}
                {owner && user.id !== me.id && (
                  <RowAction
                    danger
                    of={`Remove ${user.email}`}
                    run={() => {
                      setDoomed({
                        path: `/users/${user.id}`,
                        email: user.email,
                        invited: false,
                      });
                    }}
                  >
                    Remove
                  </RowAction>
                )}
              </Table.Tr>
            ))}
            {users.data.invitations.map((invitation) => (
              <Table.Tr key={invitation.id}>
                <Table.Td className="break wide">
                  {invitation.email}{" "}
                  <Badge variant="light" color="orange" tt="none">
                    invited
                  </Badge>
                </Table.Td>
                <Table.Td>{invitation.role}</Table.Td>
                <Table.Td data-label="since">
                  <Moment at={invitation.created_at} />
                </Table.Td>
                {owner && (
                  <RowAction
                    danger
                    of={`Withdraw the invitation of ${invitation.email}`}
                    run={() => {
                      setDoomed({
                        path: `/invitations/${invitation.id}`,
                        email: invitation.email,
                        invited: true,
                      });
                    }}
                  >
                    Withdraw
                  </RowAction>
                )}
              </Table.Tr>
            ))}
          </DataTable>
        )}
      </Stack>
      <Invite form={inviting} />
      <Confirm
        opened={doomed !== undefined}
        title={doomed?.invited === true ? "Withdraw the invitation?" : "Take away the access?"}
        action={doomed?.invited === true ? "Withdraw" : "Take away"}
        returnTo={opener}
        close={() => {
          setDoomed(undefined);
        }}
        run={async () => {
          if (doomed) await call("DELETE", doomed.path);
          await client.invalidateQueries({ queryKey: USERS });
        }}
      >
        <Text className="break">
          {doomed?.invited === true ? (
            <>
              The link that was made for <strong>{doomed.email}</strong> stops working.
            </>
          ) : (
            <>
              <strong>{doomed?.email}</strong> can no longer sign in to this account. Invitations
              that they made and nobody has accepted are withdrawn; API keys go on working.
            </>
          )}
        </Text>
      </Confirm>
    </Card>
  );
}

function Invite({ form }: { form: KeptDialog<{ email: string; role: string; send: boolean }> }) {
  const { email, role, send } = form.typed;
  const invite = useMakeOnce(USERS, form, () =>
    post<{ link: string; mail: string | null }>("/invitations", {
      email: email.trim(),
      role,
      send,
    }),
  );
  return (
    <OnceModal
      form={form}
      title="Invite somebody"
      action="Invite"
      make={invite}
      made={({ link, mail }) => (
        <>
          {mail === "sent" && (
            <Text>The invitation was mailed. The link, in case you need it:</Text>
          )}
          {mail !== null && mail !== "sent" && (
            <Problem
              error={new Error(`The mail could not be sent: ${mail}. Pass the link on yourself.`)}
            />
          )}
          {mail === null && (
            <Text>
              Pass this link on. It is valid for seven days, for one person, and{" "}
              <strong>shown only now</strong>.
            </Text>
          )}
          <Code text={link} label="Invitation link" wrap copyLabel="Copy the link" />
        </>
      )}
    >
      <TextInput
        label="Email"
        type="email"
        required
        data-autofocus
        value={email}
        onChange={(event) => {
          form.type({ email: event.currentTarget.value });
        }}
      />
      <Select
        label="Role"
        allowDeselect={false}
        data={[
          { value: "member", label: "Member: jobs and logs" },
          { value: "owner", label: "Owner: everything" },
        ]}
        value={role}
        onChange={(value) => {
          form.type({ role: value ?? "member" });
        }}
      />
      <Checkbox
        label="Also mail the link, through the account's SMTP server"
        checked={send}
        onChange={(event) => {
          form.type({ send: event.currentTarget.checked });
        }}
      />
    </OnceModal>
  );
}
