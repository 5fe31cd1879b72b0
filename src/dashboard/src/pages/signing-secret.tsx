import { Button, Card, Group, Stack, Tabs, Text, Title } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { get, post } from "../api.ts";
import type { SigningSecret } from "../api-types.ts";
import { Confirm } from "../components/confirm.tsx";
import { Code, Copy } from "../components/copy.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { ShowButton } from "../components/show-button.tsx";
import { useLoaded } from "../loaded.ts";
import { formatTime } from "../time.ts";
import { SNIPPETS } from "./verification-snippets.ts";

const SECRET = ["signing-secret"];

export function SigningSecretPage() {
  const [shown, setShown] = useState(false);
  const [rotating, setRotating] = useState(false);
  const client = useQueryClient();
  const secret = useLoaded({
    queryKey: SECRET,
    queryFn: async () => (await get<{ secrets: SigningSecret[] }>("/signing-secret")).secrets,
  });
  const [newest, ...old] = secret.data ?? [];
  return (
    <Page
      title="Webhook signing"
      about="Carillon signs every webhook call as Standard Webhooks describes. Check the signature, and you know that a call comes from here, unchanged, and is not an old one played back."
      actions={
        <Button
          variant="default"
          onClick={() => {
            setRotating(true);
          }}
        >
          Rotate the secret
        </Button>
      }
    >
      {secret.isPending && <Waiting rows={3} />}
      {secret.error && <Problem error={secret.error} retry={() => secret.refetch()} />}
      {newest && (
        <Card withBorder className="panel">
          <Stack gap="sm">
            <Title order={2} size="h5">
              Signing secret
            </Title>
            <pre className="code wrap" role="region" aria-label="Signing secret" tabIndex={0}>
              {shown
                ? [newest, ...old].map((each) => each.secret).join("\n")
                : "whsec_••••••••••••••••••••••••••••••••"}
            </pre>
            <Group gap="xs">
              <ShowButton of="the secret" shown={shown} show={setShown} />
              <Copy value={newest.secret} label="Copy the secret" />
            </Group>
            {old.length > 0 && (
              <Text size="sm" c="dimmed">
                {old.length + 1} secrets sign at the moment, the newest first. The old{" "}
                {old.length === 1 ? "one signs" : "ones sign"} until {ends(old)}.
              </Text>
            )}
          </Stack>
        </Card>
      )}
      <Card withBorder className="panel">
        <Title order={2} size="h5" mb="sm">
          Check the signature
        </Title>
        <Tabs defaultValue={SNIPPETS[0]?.language ?? null} keepMounted={false}>
          <Tabs.List mb="sm">
            {SNIPPETS.map(({ language }) => (
              <Tabs.Tab key={language} value={language}>
                {language}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          {SNIPPETS.map(({ language, code }) => (
            <Tabs.Panel key={language} value={language}>
              <Code text={code} label={`Verification in ${language}`} />
            </Tabs.Panel>
          ))}
        </Tabs>
      </Card>
      <Confirm
        opened={rotating}
        title="Rotate the signing secret?"
        action="Rotate"
        close={() => {
          setRotating(false);
        }}
        run={async () => {
          await post("/signing-secret/rotate");
          setShown(true);
          await client.invalidateQueries({ queryKey: SECRET });
        }}
      >
        <Text>
          A new secret signs from now on. The old one goes on signing for 24 hours, so that
          receivers have time to change over: each call then carries both signatures.
        </Text>
      </Confirm>
    </Page>
  );
}

function ends(secrets: readonly SigningSecret[]): string {
  return secrets
    .flatMap(({ valid_until: end }) => (end === null ? [] : [formatTime(end)]))
    .join("; ");
}
