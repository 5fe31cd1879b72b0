import { until } from "../until.ts";

interface CaughtSummary {
  id: string;
  to: string;
  subject: string;
}

/** The mail to this address, as the catcher parsed it, once it is there. */
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
