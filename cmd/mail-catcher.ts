import { startMailCatcher, type MailCatcher } from "../src/mail/mail-catcher.ts";
import { isSystemError } from "../src/standalone/system-error.ts";

interface Ports {
  smtpPort: number;
  httpPort: number;
}

/** The ports that people know from other mail catchers. */
const USUAL: Ports = { smtpPort: 1025, httpPort: 8025 };
const ANY: Ports = { smtpPort: 0, httpPort: 0 };
const HOST = "127.0.0.1";

/** Starts on the ports of last time, or the usual ones the first time; if they are not free, on any. */
export async function startCatcher(options: {
  remembered: Ports | undefined;
  /** Ports that this process will listen on itself, later. */
  reserved: readonly number[];
  say: (line: string) => void;
}): Promise<MailCatcher & { host: string }> {
  const { remembered, reserved, say } = options;
  const wanted = remembered ?? USUAL;
  const free = !reserved.includes(wanted.smtpPort) && !reserved.includes(wanted.httpPort);
  const catcher = free ? await startOn(wanted) : undefined;
  if (catcher) return { ...catcher, host: HOST };
  const other = await startMailCatcher({ host: HOST, ...ANY });
  say(
    `The mail catcher's ports ${wanted.smtpPort} and ${wanted.httpPort} are not both free: it takes mail on ${other.smtpPort} and shows it on ${other.httpPort}.`,
  );
  return { ...other, host: HOST };
}

/** Undefined: one of the ports is in use, or may not be listened on, as where Windows keeps it for itself. */
async function startOn(ports: Ports): Promise<MailCatcher | undefined> {
  try {
    return await startMailCatcher({ host: HOST, ...ports });
  } catch (error) {
    if (isSystemError(error, "EADDRINUSE") || isSystemError(error, "EACCES")) return undefined;
    throw error;
  }
}
