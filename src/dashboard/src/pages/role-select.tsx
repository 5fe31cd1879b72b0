import { Select, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api.ts";
import type { User } from "../api-types.ts";
import { Confirm } from "../components/confirm.tsx";
import { useSession } from "../session.ts";

type Role = User["role"];

/** Shows a user's role, and changes it after a question. */
export function RoleSelect({ user }: { user: User }) {
  const me = useSession().user;
  const [opened, setOpened] = useState(false);
  const [wanted, setWanted] = useState<Role>("member");
  const client = useQueryClient();
  const mine = user.id === me.id;
  return (
    <>
      <Select
        size="xs"
        w={105}
        aria-label={`Role of ${user.email}`}
        allowDeselect={false}
        data={["owner", "member"] satisfies Role[]}
        value={user.role}
        onChange={(role) => {
          if (role === null || role === user.role) return;
          setWanted(role);
          setOpened(true);
        }}
      />
      <Confirm
        opened={opened}
        title={wanted === "owner" ? "Make an owner?" : "Make a member?"}
        action={wanted === "owner" ? "Make an owner" : "Make a member"}
        close={() => {
          setOpened(false);
        }}
        run={async () => {
          await call("PATCH", `/users/${user.id}`, { role: wanted });
          await client.invalidateQueries({ queryKey: ["users"] });
          if (mine) await client.invalidateQueries({ queryKey: ["session"] });
        }}
      >
        <Text className="break">
          {wanted === "owner" ? (
            <>
              <strong>{user.email}</strong> may do everything in this account: keys, SMTP, users,
              deletion.
            </>
          ) : (
            <>
              <strong>{user.email}</strong>
              {mine && " (you)"} may only work with jobs and logs from now on, also where signed in
              already.
            </>
          )}
        </Text>
      </Confirm>
    </>
  );
}
