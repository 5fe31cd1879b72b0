import { createHmac } from "node:crypto";
import type { CustomAuthenticationContext } from "nodemailer/lib/smtp-connection";

/**
 * RFC 2195, for servers that offer nothing else. nodemailer's own implementation reads the challenge with a regular
 * expression that takes quadratic time for spaces: 100 kB of them, from the mail server of one account, would hold
 * up the whole process for half a minute.
 */
export function cramMd5(credentials: { user: string; pass: string }) {
  return async (context: CustomAuthenticationContext): Promise<boolean> => {
    const challenge = await context.sendCommand("AUTH CRAM-MD5");
    if (challenge.status !== 334) throw new Error("Invalid login");
    const digest = createHmac("md5", credentials.pass)
      .update(Buffer.from(challenge.text, "base64"))
      .digest("hex");
    const answer = Buffer.from(`${credentials.user} ${digest}`).toString("base64");
    if ((await context.sendCommand(answer)).status !== 235) throw new Error("Invalid login");
    return true;
  };
}
