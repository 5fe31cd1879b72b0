import {
  Button,
  Card,
  Group,
  NumberInput,
  PasswordInput,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call, post } from "../api.ts";
import type { Account } from "../api-types.ts";
import { BusyButton } from "../components/busy-button.tsx";
import { Confirm } from "../components/confirm.tsx";
import { Page } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { Submit } from "../components/submit.tsx";
import { TimeZoneSelect } from "../components/time-zone-select.tsx";
import { TypedBefore } from "../components/typed-before.tsx";
import { useKept } from "../kept.ts";
import { accountChanged, useSession, useSignedIn } from "../session.ts";
import { UsersCard } from "./users-card.tsx";

export function SettingsPage() {
  const { user } = useSession();
  const owner = user.role === "owner";
  return (
    <Page title="Settings">
      {owner && <AccountCard />}
      <UsersCard />
      <PasswordCard />
      {owner && <DangerCard />}
    </Page>
  );
}

const DAYS = "Days to keep executions and the email log";

function AccountCard() {
  const { account, installation } = useSession();
  const client = useQueryClient();
  // Only what differs from what the user saw is saved: somebody else may have changed the rest meanwhile.
  const form = useKept<{ seen: Account; zone: string; days: number | string }>("account", {
    seen: account,
    zone: account.time_zone,
    days: account.retention_days ?? "",
  });
  const { typed } = form;
  const [seen, setSeen] = useState(typed.seen);
  const most = installation.retention_days;
  const save = useMutation({
    mutationFn: async ({ zone, days }: typeof typed) => {
      const retention_days = days === "" ? null : Number(days);
      const changes = {
        ...(zone === seen.time_zone ? {} : { time_zone: zone }),
        ...(retention_days === seen.retention_days ? {} : { retention_days }),
      };
      if (Object.keys(changes).length === 0) return null;
      return call<Account>("PATCH", "/account", changes);
    },
    onSuccess: (changed, sent) => {
      if (sent === typed) form.drop();
      if (changed === null) {
        notifications.show({ color: "gray", message: "Nothing was changed" });
        return;
      }
      setSeen(changed);
      // The form shows what somebody else has changed, which the next save would take for a change back. What was typed
      // meanwhile stays.
      const shown = {
        seen: changed,
        zone: typed.zone === sent.zone ? changed.time_zone : typed.zone,
        days: typed.days === sent.days ? (changed.retention_days ?? "") : typed.days,
      };
      if (sent === typed) form.clear(shown);
      else form.type(shown);
      accountChanged(client, changed);
      notifications.show({ color: "green.9", message: "Settings saved" });
    },
  });
  return (
    <Card withBorder className="panel">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(typed);
        }}
      >
        <Stack>
          <Title order={2} size="h4">
            Account
          </Title>
          {form.found && (
            <TypedBefore
              startAfresh={() => {
                setSeen(account);
                form.clear();
                save.reset();
              }}
            />
          )}
          <TimeZoneSelect
            description="What new jobs start with."
            value={typed.zone}
            change={(zone) => {
              form.type({ seen, zone });
            }}
          />
          <NumberInput
            label={DAYS}
            description={
              most === 0
                ? "Empty: for ever."
                : `At most ${most}, which is also what empty means: the installation keeps no more.`
            }
            min={1}
            max={most === 0 ? 36_500 : most}
            value={typed.days}
            onChange={(days) => {
              form.type({ seen, days });
            }}
          />
          <Submit by={save} labels={{ retention_days: DAYS }}>
            Save
          </Submit>
        </Stack>
      </form>
    </Card>
  );
}

function PasswordCard() {
  const { user } = useSession();
  const signedIn = useSignedIn();
  const client = useQueryClient();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = useMutation({
    mutationFn: () =>
      post("/password", {
        ...(user.has_password ? { current_password: current } : {}),
        new_password: next,
      }),
    onSuccess: async () => {
      setCurrent("");
      setNext("");
      notifications.show({
        color: "green.9",
        message: "Password changed. You are signed out everywhere else.",
      });
      await client.invalidateQueries({ queryKey: ["session"] });
    },
  });
  const everywhere = useMutation({
    mutationFn: () => call("DELETE", "/sessions"),
    onSuccess: () => {
      signedIn(null);
    },
  });
  return (
    <Card withBorder className="panel">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate();
        }}
      >
        <Stack>
          <Title order={2} size="h4">
            Your password
          </Title>
          <input
            type="hidden"
            name="username"
            autoComplete="username"
            value={user.email}
            readOnly
          />
          {user.has_password ? (
            <PasswordInput
              label="Current password"
              autoComplete="current-password"
              required
              value={current}
              onChange={(event) => {
                setCurrent(event.currentTarget.value);
              }}
            />
          ) : (
            <Text size="sm" c="dimmed">
              You have none yet. Choose one within ten minutes after signing in, to sign in with it
              too.
            </Text>
          )}
          <PasswordInput
            label="New password"
            description="At least 8 characters. Every other session of yours ends."
            autoComplete="new-password"
            required
            value={next}
            onChange={(event) => {
              setNext(event.currentTarget.value);
            }}
          />
          {change.error && <Problem error={change.error} />}
          <Group justify="space-between">
            <BusyButton
              variant="default"
              busy={everywhere.isPending}
              onClick={() => {
                everywhere.mutate();
              }}
            >
              Sign out everywhere
            </BusyButton>
            <BusyButton type="submit" busy={change.isPending}>
              {user.has_password ? "Change password" : "Choose a password"}
            </BusyButton>
          </Group>
        </Stack>
      </form>
    </Card>
  );
}

function DangerCard() {
  const { account, user, installation } = useSession();
  const signedIn = useSignedIn();
  const [opened, setOpened] = useState(false);
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  return (
    <Card withBorder className="panel">
      <Stack align="flex-start">
        <Title order={2} size="h4">
          Delete the account
        </Title>
        <Text size="sm">
          API keys and users stop working at once, runs that wait are cancelled, and the jobs that
          were made here or by REST are deleted. The email log, executions, SMTP settings and
          secrets are removed after 30 days.
          {installation.kubernetes &&
            " Jobs that kubectl or a GitOps tool made stay in the cluster, and no longer run."}
        </Text>
        <Button
          color="red"
          variant="light"
          onClick={() => {
            setOpened(true);
          }}
        >
          Delete this account …
        </Button>
      </Stack>
      <Confirm
        opened={opened}
        title={`Delete the account ${account.name}?`}
        action="Delete for ever"
        disabled={name !== account.name || (user.has_password && password === "")}
        close={() => {
          setOpened(false);
          setName("");
          setPassword("");
        }}
        run={async () => {
          await post("/account/delete", { name, ...(user.has_password ? { password } : {}) });
          signedIn(null);
        }}
      >
        <TextInput
          label={`Type the account's name: ${account.name}`}
          autoComplete="off"
          data-autofocus
          value={name}
          onChange={(event) => {
            setName(event.currentTarget.value);
          }}
        />
        {user.has_password ? (
          <PasswordInput
            label="Your password"
            autoComplete="current-password"
            value={password}
            onChange={(event) => {
              setPassword(event.currentTarget.value);
            }}
          />
        ) : (
          <Text size="sm">You must have signed in within the last ten minutes.</Text>
        )}
      </Confirm>
    </Card>
  );
}
