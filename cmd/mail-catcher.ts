import { startMailCatcher, type MailCatcher } from "../src/mail/mail-catcher.ts";

/** The ports that people know from other mail catchers. */
const USUAL = { smtpPort: 1025, httpPort: 8025 };
const HOST = "127.0.0.1";

/** On the ports of last time, else the usual ones, else any: what matters is that it starts. */
export async function startCatcher(options: {
  remembered: { smtpPort: number; httpPort: number } | undefined;
  say: (line: string) => void;
}): Promise<MailCatcher & { host: string }> {
  const wanted = options.remembered ?? USUAL;
  try {
    return { ...(await startMailCatcher({ host: HOST, ...wanted })), host: HOST };
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EADDRINUSE")) throw error;
    if (options.remembered)
      options.say(`The mail catcher's ports ${wanted.smtpPort} and ${wanted.httpPort} are in use.`);
    const any = { smtpPort: 0, httpPort: 0 };
    return { ...(await startMailCatcher({ host: HOST, ...any })), host: HOST };
  }
}
