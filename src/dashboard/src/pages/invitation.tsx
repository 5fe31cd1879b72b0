import { Anchor, Card, Center, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation, useNavigate } from "react-router";
import { ask, post } from "../api.ts";
import type { Session } from "../api-types.ts";
import { BusyButton } from "../components/busy-button.tsx";
import { noteFirstPageShown } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { useLoaded } from "../loaded.ts";
import { useSignedIn } from "../session.ts";
import { SingleSignOnButton, useSignInOptions } from "./single-sign-on.tsx";

const INCOMPLETE = new Error("The link is not complete: its part behind # is missing.");

/** The page of an invitation's link: one chooses a password, and is signed in. */
export function InvitationPage() {
  useDocumentTitle("Invitation · Carillon");
  useEffect(noteFirstPageShown, []);
  const token = useLocation().hash.slice(1);
  // By token: another link that is opened in the same tab changes only the part behind #, and is a new invitation.
  return <Invitation key={token} token={token} />;
}

function Invitation({ token }: { token: string }) {
  const [password, setPassword] = useState("");
  const navigate = useNavigate();
  const signedIn = useSignedIn();
  const found = useLoaded({
    queryKey: ["invitation", token],
    queryFn: () => ask<{ email: string; role: string; account: string }>("/invitation", { token }),
    enabled: token !== "",
    retry: false,
  });
  const provider = useSignInOptions().data?.single_sign_on?.name;
  const accept = useMutation({
    mutationFn: () => post<Session>("/invitation/accept", { token, password }),
    onSuccess: async (session) => {
      signedIn(session);
      await navigate("/", { replace: true });
    },
  });
  return (
    <Center component="main" mih="100vh" p="md">
      <Card withBorder w="100%" maw={420} p="xl">
        <Stack>
          <Title order={1} size="h3">
            Invitation
          </Title>
          {(token === "" || found.error) && (
            <>
              <Problem error={found.error ?? INCOMPLETE} />
              <Anchor href="/dashboard/">To the sign-in</Anchor>
            </>
          )}
          {found.data && (
            <form
              onSubmit={(event) => {
                event.preventDefault();
                accept.mutate();
              }}
            >
              <Stack>
                <Text className="break">
                  You are invited to <strong>{found.data.account}</strong> as {found.data.role}.
                  Your address to sign in with is <strong>{found.data.email}</strong>.
                </Text>
                <PasswordInput
                  label="Choose a password"
                  description="At least 8 characters. A few unrelated words are good."
                  autoComplete="new-password"
                  required
                  value={password}
                  onChange={(event) => {
                    setPassword(event.currentTarget.value);
                  }}
                />
                {accept.error && <Problem error={accept.error} />}
                <BusyButton type="submit" busy={accept.isPending}>
                  Accept and sign in
                </BusyButton>
                {provider !== undefined && (
                  <SingleSignOnButton provider={provider} invitation={token} />
                )}
              </Stack>
            </form>
          )}
        </Stack>
      </Card>
    </Center>
  );
}
