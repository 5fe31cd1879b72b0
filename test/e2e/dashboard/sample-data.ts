import { until } from "../../until.ts";
import { call } from "../program.ts";
import type { Stage } from "./stage.ts";

/** Data for the pages as of a small team's day, created through the REST API. */
export async function sampleData({
  program,
  receiver,
}: Pick<Stage, "program" | "receiver">): Promise<{ jobs: string[] }> {
  const { url } = program;
  const key = program.printed("API key") ?? "";
  const send = (path: string, body: unknown) => call(url, { key, method: "POST", path, body });
  for (const [to, subject] of [
    ["ada@example.com", "Welcome to Meridian"],
    ["grace@example.com", "Your invoice for November"],
    ["alan@example.com", "Your export is ready"],
    ["katherine@example.com", "Password changed"],
  ])
    await send("/send", { to, subject, body: "Hello." });
  for (const to of ["ada@example.com", "grace@example.com", "alan@example.com"])
    await send("/send/otp", { to });
  await send("/verify/otp", { email: "grace@example.com", code: "000000" });
  const closed = "http://127.0.0.1:9/hooks/stock";
  const jobs = [
    cron("Nightly report", "0 3 * * *", "Europe/Paris", `${receiver.url}/hooks/report`),
    cron("Sync the catalogue", "*/10 * * * *", "UTC", `${receiver.url}/hooks/catalogue`),
    cron("Close the till", "30 18 * * 1-5", "America/New_York", `${receiver.url}/hooks/till`),
    cron("Check stock levels", "*/15 * * * *", "UTC", closed),
    {
      name: "Weekly digest",
      type: "email",
      schedule_type: "cron",
      cron_expression: "0 9 * * 1",
      timezone: "Europe/London",
      email_to: "team@example.com",
      email_subject: "This week",
      email_body: "What happened this week.",
    },
    {
      name: "Launch announcement",
      type: "email",
      schedule_type: "one_time",
      run_at: new Date(Date.now() + 86_400_000).toISOString(),
      email_to: "press@example.com",
      email_subject: "We are live",
      email_body: "Today is the day.",
    },
    {
      name: "Maintenance notice",
      type: "email",
      schedule_type: "one_time",
      run_at: new Date(Date.now() + 2_000).toISOString(),
      email_to: "team@example.com",
      email_subject: "Maintenance is over",
      email_body: "Everything is back.",
    },
  ];
  const ids: string[] = [];
  for (const job of jobs) ids.push(((await send("/jobs", job)).body as { id: string }).id);
  for (const id of ids.slice(0, 5))
    for (const _ of [1, 2, 3])
      await until(
        "the job is taken up",
        async () => (await send(`/jobs/${id}/run`, {})).status === 202,
      );
  await send(`/jobs/${ids[2]}/pause`, {});
  await until("all runs are over", async () => {
    for (const id of ids.slice(0, 5)) {
      const { body } = await call(url, { key, path: `/jobs/${id}/executions` });
      if ((body as unknown[]).length < 3) return false;
    }
    const { body } = await call(url, { key, path: `/jobs/${ids[6]}` });
    return (body as { status: string }).status === "completed";
  });
  return { jobs: ids };
}

function cron(name: string, expression: string, timezone: string, url: string) {
  return {
    name,
    type: "webhook",
    schedule_type: "cron",
    cron_expression: expression,
    timezone,
    webhook_url: url,
    webhook_payload: { report: name.toLowerCase() },
  };
}
