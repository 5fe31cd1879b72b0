import { Divider } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ask, get } from "../api.ts";
import { BusyButton } from "../components/busy-button.tsx";
import { Problem } from "../components/problem.tsx";
import { useLoaded } from "../loaded.ts";

interface SignInOptions {
  /** Null: one can only sign in with a password. */
  single_sign_on: { name: string } | null;
}

export function useSignInOptions() {
  return useLoaded({
    queryKey: ["sign-in"],
    queryFn: () => get<SignInOptions>("/sign-in"),
    staleTime: Infinity,
    retry: false,
  });
}

/** By the word that the gateway puts into the address when a sign-in fails. It uses no others. */
const REASONS: Readonly<Record<string, (provider: string) => string>> = {
  expired: () =>
    "This sign-in has expired, was used already, or was begun in another browser. Please start again.",
  refused: (provider) =>
    `${provider} did not confirm who you are. Start again, or sign in with your password.`,
  unavailable: (provider) =>
    `${provider} does not answer. Try again later, or sign in with your password.`,
  unverified: (provider) =>
    `${provider} gives no email address of yours that it has verified. Verify it there, or sign in with your password.`,
  unknown: () =>
    "Nobody here has your email address. Ask an owner of your account for an invitation.",
  taken: (provider) =>
    `Somebody else at ${provider} signs in here with your email address. Ask an owner of your account to remove that user and to invite you.`,
  invitation: () => "The invitation has expired, was used or was withdrawn. Ask for another one.",
  other_address: (provider) =>
    `The invitation is for another email address than the one that ${provider} has of you.`,
  failed: () => "The sign-in did not work. Please try again.",
};

/** Says why a sign-in through the provider failed. Only once: after a reload the page is plain again. */
export function SingleSignOnProblem({ provider }: { provider: string }) {
  const [reason] = useState(() => /^#sign-in=(\w+)$/.exec(location.hash)?.[1] ?? "");
  useEffect(() => {
    if (reason !== "") history.replaceState(history.state, "", location.pathname);
  }, [reason]);
  const text = Object.hasOwn(REASONS, reason) ? REASONS[reason]?.(provider) : undefined;
  return text === undefined ? null : <Problem error={new Error(text)} />;
}

/** Sends the browser to the provider by script: the page's policy forbids a form that redirects there. */
export function SingleSignOnButton({
  provider,
  invitation,
}: {
  provider: string;
  /** Token of an invitation to accept with the sign-in. */
  invitation?: string;
}) {
  const begin = useMutation({
    mutationFn: () => ask<{ url: string }>("/single-sign-on", { invitation }),
    onSuccess: ({ url }) => {
      location.assign(url);
    },
  });
  return (
    <>
      <Divider label="or" />
      {begin.error && <Problem error={begin.error} />}
      <BusyButton
        variant="default"
        fullWidth
        busy={begin.isPending}
        onClick={() => {
          begin.mutate();
        }}
      >
        {invitation === undefined ? "Sign in" : "Accept"} with {provider}
      </BusyButton>
    </>
  );
}
