import type { MailMessage } from "../domain/mail.ts";

/**
 * The mail that carries a passcode. Plain text, so that every client shows it and mobile systems find
 * the code. The code is in the body only: subjects are kept in the email log, codes never are.
 */
export function otpMessage(passcode: { to: string; code: string; minutes: number }): MailMessage {
  return {
    to: passcode.to,
    subject: "Your verification code",
    body: [
      `Your verification code is ${passcode.code}`,
      "",
      `It is valid for ${passcode.minutes} minutes and can be used once.`,
      "If you did not ask for it, you can ignore this email. Do not share the code with anyone.",
      "",
    ].join("\n"),
    isHtml: false,
    kind: "otp",
    // RFC 3834: no vacation notices, no out-of-office replies.
    headers: { "Auto-Submitted": "auto-generated" },
  };
}
