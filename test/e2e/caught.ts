import { until } from "../until.ts";

interface CaughtSummary {
  id: string;
  to: string;
  subject: string;
}

/** Waits for a mail to this address and returns it as the mail catcher parsed it. */
export async function caughtMail(
  catcherUrl: string,
  to: string,
): Promise<{ subject: string; text: string }> {
  const { id } = await until(`a mail to ${to}`, async () => {
    const response = await fetch(`${catcherUrl}api/messages`);
    const { messages } = (await response.json()) as { messages: CaughtSummary[] };
    return messages.find((message) => message.to === to);
  });
  const response = await fetch(`${catcherUrl}api/messages/${id}`);
  return (await response.json()) as { subject: string; text: string };
}
