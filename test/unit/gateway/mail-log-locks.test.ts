import { expect, test } from "vitest";
import { LockHeld } from "../../../src/domain/ports/dependency-unavailable.ts";
import type { SendRequest } from "../../../src/gateway/schema/mail.ts";
import type { ApiRequest } from "../../../src/gateway/endpoint.ts";
import { mailRoutes, type MailRouteOptions } from "../../../src/gateway/routes/mail.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { settle } from "../controller/controller-world.ts";

/** A log of mails on whose part of each account in `held` somebody holds a lock. */
function world() {
  const held = new Set<string>();
  /** Whose entries are asked for, and wait for a lock. */
  const waiting: { account: string; giveUp: () => void }[] = [];
  const refuse = (account: string): void => {
    if (held.has(account)) throw new LockHeld("postgres");
  };
  const emailLog = {
    append: async (entry: { account: string }) => {
      refuse(entry.account);
      return { ...entry, id: "id", sentAt: 0 };
    },
    ready: async (account: string) => {
      if (!held.has(account)) return;
      const wait = Promise.withResolvers<void>();
      waiting.push({ account, giveUp: wait.resolve });
      await wait.promise;
      refuse(account);
    },
  };
  const routes = mailRoutes({
    mailer: { send: async () => ({ kind: "accepted" }) },
    emailLog,
    metrics: createMetrics({ version: "test", nodeMetrics: false }),
    report: () => undefined,
  } as unknown as MailRouteOptions);
  const send = async (account: string): Promise<string> => {
    const body = { to: "ada@example.com", subject: "s", body: "b" };
    const request = { account, smtpRevision: "r", body, gone: () => false };
    try {
      const { status } = await routes.sendEmail(request as unknown as ApiRequest<SendRequest>);
      return `${status}`;
    } catch (error) {
      return (error as Error).name;
    }
  };
  return { held, waiting, send };
}

test("an account whose lock is released is not refused for that of another one", async () => {
  const { held, waiting, send } = world();
  held.add("a").add("b");
  await Promise.all([send("a"), send("b")]);
  held.delete("a");
  const ofB = send("b");
  await settle();
  const ofA = send("a");
  await settle();
  // The check under way is for b: a has its own when that has failed.
  expect(waiting.map(({ account }) => account)).toEqual(["b"]);
  waiting[0]?.giveUp();
  expect(await ofB).toBe("LockHeld");
  expect(await ofA).toBe("200");
});

test("an account without a lock is not refused, when the log was away and another one's lock is met first", async () => {
  const { held, waiting, send } = world();
  held.add("b");
  await send("b");
  held.add("c");
  const ofC = send("c");
  await settle();
  const ofA = send("a");
  await settle();
  expect(waiting.map(({ account }) => account)).toEqual(["c"]);
  waiting[0]?.giveUp();
  expect(await ofC).toBe("LockHeld");
  expect(await ofA).toBe("200");
});
