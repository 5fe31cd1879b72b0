import {
  Alert,
  Card,
  Group,
  NumberInput,
  PasswordInput,
  Select,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconCircleCheck } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ApiError, get, post } from "../api.ts";
import type { SmtpSettings, SmtpTest, TlsMode } from "../api-types.ts";
import { changedMeanwhile, refusal } from "../changed-meanwhile.ts";
import { BusyButton } from "../components/busy-button.tsx";
import { Code } from "../components/copy.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { Submit } from "../components/submit.tsx";
import { TypedBefore } from "../components/typed-before.tsx";
import { useLoaded } from "../loaded.ts";
import { useSession } from "../session.ts";
import { useUnsaved } from "../unsaved.ts";
import { PRESETS } from "./smtp-presets.ts";

/** What the fields are called in this form, unless almost like their name. */
const LABELS = { tls: "Encryption", username: "User name", from: "From address" };

export function SmtpPage() {
  const [form, setForm] = useState(0);
  const smtp = useLoaded({
    queryKey: ["smtp"],
    queryFn: savedSettings,
    refetchOnWindowFocus: false,
    // Not cached: the form begins with what is saved now, not with what an earlier visit saw.
    gcTime: 0,
  });
  return (
    <Page
      title="SMTP"
      about="All email of this account goes out through your own SMTP server: sends, passcodes and email jobs."
    >
      {smtp.isPending && <Waiting />}
      {smtp.error && <Problem error={smtp.error} retry={() => smtp.refetch()} />}
      {smtp.data !== undefined && (
        <SmtpForm
          key={form}
          saved={smtp.data}
          startAfresh={() => {
            setForm((before) => before + 1);
          }}
        />
      )}
    </Page>
  );
}

async function savedSettings(): Promise<SmtpSettings | null> {
  return (await get<{ settings: SmtpSettings | null }>("/smtp")).settings;
}

/** What the form holds, without the password. */
interface Typed {
  host: string;
  port: number | string;
  tls: TlsMode;
  username: string;
  from: string;
}

function typedOf(saved: SmtpSettings | null): Typed {
  const { host = "", port = 587, tls = "starttls", username, from = "" } = saved ?? {};
  return { host, port, tls, username: username ?? "", from };
}

function SmtpForm(props: { saved: SmtpSettings | null; startAfresh: () => void }) {
  const { saved } = props;
  const { user } = useSession();
  const client = useQueryClient();
  const { found, hold, drop } = useUnsaved<{ seen: SmtpSettings | null; typed: Typed }>(user.id);
  // The settings may be loaded again while the form is open: what somebody else has changed is told by comparing with
  // what the user saw.
  const [seen, setSeen] = useState(found ? found.seen : saved);
  const start = found?.typed ?? typedOf(saved);
  const [host, setHost] = useState(start.host);
  const [port, setPort] = useState(start.port);
  const [tls, setTls] = useState(start.tls);
  const [username, setUsername] = useState(start.username);
  const [password, setPassword] = useState("");
  const [from, setFrom] = useState(start.from);
  const [to, setTo] = useState(user.email);
  /** Counts edits: an answer about settings as they were before an edit, which may come late, is not shown. */
  const [edition, setEdition] = useState(0);

  useEffect(() => {
    if (edition > 0) hold({ seen, typed: { host, port, tls, username, from } });
  }, [edition]);

  const typed = { edition, host, port, tls, username, password, from, to };
  const save = useMutation({
    mutationFn: async (sent: typeof typed) => {
      const { password: _, ...mine } = settingsOf(sent);
      const now = await savedSettings();
      const fields = now ? changedMeanwhile(mine, { ...seen }, { ...now }) : [];
      if (now && fields.length > 0) {
        // Refused only once: saving again replaces what the user has been told about.
        setSeen(now);
        client.setQueryData(["smtp"], now);
        throw refusal(fields, { ...now });
      }
      return post<{ settings: SmtpSettings }>("/smtp", settingsOf(sent));
    },
    onSuccess: ({ settings }, sent) => {
      client.setQueryData(["smtp"], settings);
      setSeen(settings);
      if (sent.edition === edition) drop();
      // As the server has saved them: in lower case, without spaces. What was typed meanwhile stays.
      setHost((now) => (now === sent.host ? settings.host : now));
      setFrom((now) => (now === sent.from ? settings.from : now));
      setPassword((now) => (now === sent.password ? "" : now));
      notifications.show({ color: "green.9", message: "SMTP settings saved" });
    },
  });
  const test = useMutation({
    mutationFn: (sent: typeof typed) =>
      post<SmtpTest>("/smtp/test", { ...settingsOf(sent), to: sent.to.trim() }),
  });
  const edited = () => {
    setEdition((before) => before + 1);
    for (const each of [save, test]) if (!each.isPending) each.reset();
  };
  const tested = test.variables?.edition === edition && test.variables.to === to;
  const problem = (field: string) =>
    [save.variables?.edition === edition && save.error, tested && test.error]
      .flatMap((error) => (error instanceof ApiError ? error.details : []))
      .find((detail) => detail.field === field)?.message;
  const keepsPassword =
    saved?.password_set === true &&
    saved.host === host.trim().toLowerCase() &&
    saved.port === Number(port) &&
    saved.username === username &&
    (tls !== "none" || saved.tls === "none");

  return (
    <Stack>
      {found && (
        <TypedBefore
          but="the password: it is"
          startAfresh={() => {
            drop();
            props.startAfresh();
          }}
        />
      )}
      <form
        onChange={edited}
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate(typed);
        }}
      >
        <Card withBorder className="panel">
          <Stack>
            {/* What is typed into it only looks for a provider: the form does not hear of it. */}
            <div
              onChange={(event) => {
                event.stopPropagation();
              }}
            >
              <Select
                label="Provider"
                placeholder="Another server"
                description="Fills in host, port and encryption."
                data={PRESETS.map(({ name }) => name)}
                clearable
                searchable
                onChange={(name) => {
                  const preset = PRESETS.find((each) => each.name === name);
                  if (!preset) return;
                  edited();
                  setHost(preset.host);
                  setPort(preset.port);
                  setTls(preset.tls);
                  if (preset.username !== undefined) setUsername(preset.username);
                }}
              />
            </div>
            <SimpleGrid cols={{ base: 1, sm: 3 }}>
              <TextInput
                label="Host"
                placeholder="smtp.example.com"
                required
                value={host}
                error={problem("host")}
                onChange={(event) => {
                  setHost(event.currentTarget.value);
                }}
              />
              <NumberInput
                label="Port"
                required
                min={1}
                max={65_535}
                value={port}
                error={problem("port")}
                onChange={(value) => {
                  edited();
                  setPort(value);
                }}
              />
              <Select
                label="Encryption"
                data={[
                  { value: "starttls", label: "STARTTLS (587)" },
                  { value: "implicit", label: "TLS from the start (465)" },
                  { value: "none", label: "None (only for tests)" },
                ]}
                value={tls}
                allowDeselect={false}
                onChange={(value) => {
                  edited();
                  setTls(value ?? "starttls");
                }}
              />
            </SimpleGrid>
            <SimpleGrid cols={{ base: 1, sm: 2 }}>
              <TextInput
                label="User name"
                description="Empty: no authentication"
                autoComplete="off"
                value={username}
                error={problem("username")}
                onChange={(event) => {
                  setUsername(event.currentTarget.value);
                }}
              />
              <PasswordInput
                label="Password"
                description={
                  keepsPassword
                    ? "Stored, encrypted. Leave it empty to keep it."
                    : saved?.password_set === true
                      ? "Enter it again: the server, the user or the encryption changes."
                      : "Stored encrypted, and never shown again"
                }
                placeholder={keepsPassword ? "••••••••" : ""}
                autoComplete="new-password"
                value={password}
                error={problem("password")}
                onChange={(event) => {
                  setPassword(event.currentTarget.value);
                }}
              />
            </SimpleGrid>
            <TextInput
              label="From address"
              description="The sender that recipients see. Your provider must allow it."
              placeholder="noreply@example.com"
              required
              value={from}
              error={problem("from")}
              onChange={(event) => {
                setFrom(event.currentTarget.value);
              }}
            />
            <Submit by={save} labels={LABELS}>
              Save
            </Submit>
          </Stack>
        </Card>
      </form>
      {/* A form of its own: Enter in its field sends the test, and a bad address in it does not prevent saving. */}
      <form
        onChange={() => {
          if (!test.isPending) test.reset();
        }}
        onSubmit={(event) => {
          event.preventDefault();
          test.mutate(typed);
        }}
      >
        <Card withBorder className="panel">
          <Stack>
            <div>
              <Title order={2} size="h5">
                Test
              </Title>
              <Text size="sm" c="dimmed">
                Sends one mail with the settings above, saved or not.
              </Text>
            </div>
            <Group align="flex-end">
              <TextInput
                label="Send the test to"
                type="email"
                required
                flex={1}
                miw="min(200px, 100%)"
                value={to}
                error={problem("to")}
                onChange={(event) => {
                  setTo(event.currentTarget.value);
                }}
              />
              <BusyButton
                variant="default"
                busy={test.isPending}
                disabled={host === "" || from === ""}
                type="submit"
              >
                Send a test
              </BusyButton>
            </Group>
            {test.error && <Problem error={test.error} />}
            {tested && test.data && <TestResult test={test.data} />}
          </Stack>
        </Card>
      </form>
    </Stack>
  );
}

/** The body of POST /smtp. */
function settingsOf(typed: {
  host: string;
  port: number | string;
  tls: TlsMode;
  username: string;
  password: string;
  from: string;
}) {
  const { host, port, tls, username, password, from } = typed;
  return {
    host: host.trim(),
    port: Number(port),
    tls,
    username: username === "" ? null : username,
    from: from.trim(),
    ...(password === "" ? {} : { password }),
  };
}

function TestResult({ test }: { test: SmtpTest }) {
  if (test.accepted)
    return (
      <Alert color="green" icon={<IconCircleCheck aria-hidden />} role="status">
        The server accepted the mail. Look into the inbox, and into the spam folder.
      </Alert>
    );
  return (
    <Stack gap="xs">
      <Problem error={new Error(test.error ?? "the mail was not sent")} />
      {test.transcript.length > 0 && (
        <>
          <Text size="sm">The conversation (C: Carillon, S: the server), without secrets:</Text>
          <Code text={test.transcript.join("\n")} label="SMTP transcript" />
        </>
      )}
    </Stack>
  );
}
