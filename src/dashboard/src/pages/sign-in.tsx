import { Card, Center, Group, PasswordInput, Stack, Text, TextInput, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { IconBell } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ask } from "../api.ts";
import type { Session } from "../api-types.ts";
import { BusyButton } from "../components/busy-button.tsx";
import { ColorScheme } from "../components/color-scheme.tsx";
import { noteFirstPageShown, WaitingForAll } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { useSignedIn } from "../session.ts";
import { SingleSignOnButton, SingleSignOnProblem, useSignInOptions } from "./single-sign-on.tsx";

export function SignInPage() {
  useDocumentTitle("Sign in · Carillon");
  useEffect(noteFirstPageShown, []);
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const signedIn = useSignedIn();
  const signIn = useMutation({
    mutationFn: () => ask<Session>("/session", { email: email.trim(), password }),
    onSuccess: signedIn,
  });
  const options = useSignInOptions();
  // Shown only when it is known whether there is a provider: a button that comes later would move the others.
  if (options.isPending) return <WaitingForAll />;
  const provider = options.data?.single_sign_on?.name;
  return (
    <Center component="main" mih="100vh" p="md">
      <Card withBorder w="100%" maw={400} p="xl" shadow="sm">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            signIn.mutate();
          }}
        >
          <Stack>
            <Group justify="space-between">
              <Group gap={8}>
                <IconBell size={26} aria-hidden />
                <Title order={1} size="h3">
                  Carillon
                </Title>
              </Group>
              <ColorScheme />
            </Group>
            {provider !== undefined && <SingleSignOnProblem provider={provider} />}
            <TextInput
              label="Email"
              type="email"
              name="email"
              autoComplete="username"
              required
              autoFocus
              value={email}
              onChange={(event) => {
                setEmail(event.currentTarget.value);
              }}
            />
            <PasswordInput
              label="Password"
              name="password"
              autoComplete="current-password"
              required
              value={password}
              onChange={(event) => {
                setPassword(event.currentTarget.value);
              }}
            />
            {options.error && <Problem error={options.error} retry={() => options.refetch()} />}
            {signIn.error && <Problem error={signIn.error} />}
            <BusyButton type="submit" busy={signIn.isPending} fullWidth>
              Sign in
            </BusyButton>
            {provider !== undefined && <SingleSignOnButton provider={provider} />}
            <Text size="sm" c="dimmed">
              The first start prints an address and a password. Otherwise an owner of your account
              can invite you.
            </Text>
          </Stack>
        </form>
      </Card>
    </Center>
  );
}
