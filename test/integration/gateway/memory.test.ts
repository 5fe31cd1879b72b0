import { expect, test } from "vitest";
import { timers } from "../../../cmd/system.ts";
import { collectGarbage } from "../../collect-garbage.ts";
import { until } from "../../until.ts";
import { startHarness } from "./harness.ts";

/** Holds calls until `open`, and counts them. */
function gate() {
  const opened = Promise.withResolvers<void>();
  const count = { now: 0, most: 0 };
  return {
    count,
    open: opened.resolve,
    through: async <T>(call: () => Promise<T>): Promise<T> => {
      count.now += 1;
      count.most = Math.max(count.most, count.now);
      await opened.promise;
      return call().finally(() => {
        count.now -= 1;
      });
    },
  };
}

test("large bodies stay with their clients until mails before them are sent; nobody else's wait", async () => {
  const { count, open, through } = gate();
  const harness = await startHarness({
    bodyBytes: 256 * 1_024,
    mailer: (mailer) => ({ ...mailer, send: (...mail) => through(() => mailer.send(...mail)) }),
  });
  try {
    const json = { to: "a@example.com", subject: "long", body: "x".repeat(100_000) };
    const send = (key: string) => harness.request({ method: "POST", path: "/send", key, json });
    const first = [1, 2, 3, 4].map(() => send(harness.first.key));
    await until("the first account's first mail", () => count.now === 1);
    const second = send(harness.second.key);
    await until("another account's mail", () => count.now === 2);
    open();
    const statuses = (await Promise.all([...first, second])).map(({ status }) => status);
    expect(statuses).toEqual([200, 200, 200, 200, 200]);
    expect(count.most).toBe(2);
  } finally {
    open();
    await harness.close();
  }
});

test.each([
  { what: "small ones need no room", bodyBytes: 1, length: 5_000, atOnce: 8 },
  { what: "those of some kilobytes wait for room", bodyBytes: 170_000, length: 20_000, atOnce: 4 },
  {
    what: "large ones keep room for what they have",
    bodyBytes: 850_000,
    length: 100_000,
    atOnce: 4,
  },
])("of chunked bodies, $what", async ({ bodyBytes, length, atOnce }) => {
  const { count, open, through } = gate();
  const harness = await startHarness({
    bodyBytes,
    mailer: (mailer) => ({ ...mailer, send: (...mail) => through(() => mailer.send(...mail)) }),
  });
  try {
    const json = { to: "a@example.com", subject: "chunked", body: "x".repeat(length) };
    const mails = Array.from({ length: 8 }, () =>
      harness.request({ method: "POST", path: "/send", json, chunked: true }),
    );
    await until("as many as there is room for", () => count.now === atOnce);
    open();
    expect((await Promise.all(mails)).map(({ status }) => status)).toEqual(mails.map(() => 200));
  } finally {
    open();
    await harness.close();
  }
});

test("a chunked body that is too large to be measured takes room for the largest until it has come", async () => {
  const { count, open, through } = gate();
  const harness = await startHarness({
    // An account's share is that of four such bodies.
    bodyBytes: 1_700_000,
    mailer: (mailer) => ({ ...mailer, send: (...mail) => through(() => mailer.send(...mail)) }),
  });
  try {
    const json = { to: "a@example.com", subject: "chunked", body: "x".repeat(200_000) };
    const send = (chunked: boolean) =>
      harness.request({ method: "POST", path: "/send", json, chunked });
    const first = send(true);
    await until("it has come", () => count.now === 1);
    const others = Array.from({ length: 7 }, () => send(false));
    await until("as many as there is room for", () => count.now === 4);
    open();
    expect((await Promise.all([first, ...others])).map(({ status }) => status)).toEqual(
      Array.from({ length: 8 }, () => 200),
    );
  } finally {
    open();
    await harness.close();
  }
});

const LENGTH = 60_000;
const waits = { to: "a@example.com", subject: "waits", body: "x".repeat(LENGTH) };

test.each([
  { path: "/send", json: () => waits, most: 2 * LENGTH },
  { path: "/send", json: () => waits, most: 2 * LENGTH, key: "of-mail" },
  { path: "/send/otp", json: (id: number) => ({ to: `${id}@example.com` }), most: LENGTH },
])(
  "of a mail by $path that waits the mail is kept, not the JSON (Idempotency-Key: $key)",
  async (of) => {
    const { count, open, through } = gate();
    const harness = await startHarness({
      mailer: (mailer) => ({ ...mailer, send: (...mail) => through(() => mailer.send(...mail)) }),
    });
    const MAILS = 64;
    const send = (id: number) =>
      harness.request({
        method: "POST",
        path: of.path,
        // Not as a text, of which the client would keep a copy.
        body: new TextEncoder().encode(JSON.stringify(of.json(id)).padEnd(LENGTH)),
        headers: of.key === undefined ? {} : { "Idempotency-Key": `${of.key}-${id}` },
      });
    try {
      // Opens the connections, and creates what else is created once.
      await Promise.all(Array.from({ length: MAILS }, () => harness.request({ path: "/logs" })));
      collectGarbage();
      const before = process.memoryUsage().heapUsed;
      const mails = Array.from({ length: MAILS }, (_, id) => send(id));
      await until("all of them", () => count.now === MAILS);
      collectGarbage();
      expect((process.memoryUsage().heapUsed - before) / MAILS).toBeLessThan(of.most);
      open();
      expect((await Promise.all(mails)).map(({ status }) => status)).toEqual(mails.map(() => 200));
    } finally {
      open();
      await harness.close();
    }
  },
);

test("lists hold two pages of jobs at a time, however many ask", async () => {
  const { count, open, through } = gate();
  const limits = new Set<number>();
  const waiting = new Set<() => void>();
  const harness = await startHarness({
    timers: {
      after: (ms, callback) => {
        if (ms !== 20_000) return timers.after(ms, callback);
        waiting.add(callback);
        return { cancel: () => waiting.delete(callback) };
      },
    },
    jobs: (jobs) => ({
      ...jobs,
      list: (query) => {
        limits.add(query.limit);
        return through(() => jobs.list(query));
      },
    }),
  });
  try {
    const lists = [1, 2, 3, 4, 5, 6].map(() => harness.request({ path: "/jobs" }));
    await until("two pages", () => count.now === 2);
    await until("the others wait", () => waiting.size === 4);
    open();
    expect((await Promise.all(lists)).map(({ status }) => status)).toEqual(lists.map(() => 200));
    expect(count.most).toBe(2);
    expect([...limits]).toEqual([100]);
  } finally {
    open();
    await harness.close();
  }
});

test("a list that finds no turn in time is refused: a store that hangs makes no queue of hours", async () => {
  const { count, open, through } = gate();
  const patience = new Set<() => void>();
  const harness = await startHarness({
    jobs: (jobs) => ({ ...jobs, list: (query) => through(() => jobs.list(query)) }),
    timers: {
      after: (ms, callback) => {
        if (ms !== 20_000) return timers.after(ms, callback);
        patience.add(callback);
        return { cancel: () => patience.delete(callback) };
      },
    },
  });
  try {
    const first = [1, 2].map(() => harness.request({ path: "/jobs" }));
    await until("two pages", () => count.now === 2);
    const third = harness.request({ path: "/jobs" });
    await until("it waits", () => patience.size === 1);
    for (const end of patience) end();
    const { status, headers, json } = await third;
    expect(status).toBe(429);
    expect(headers.get("retry-after")).toBe("5");
    expect(json).toMatchObject({ code: "rate_limited" });
    open();
    expect((await Promise.all(first)).map((answer) => answer.status)).toEqual([200, 200]);
    expect((await harness.request({ path: "/jobs" })).status).toBe(200);
    expect(patience.size).toBe(0);
  } finally {
    open();
    await harness.close();
  }
});
