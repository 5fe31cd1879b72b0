import { classifyHttp, networkError, unanswered } from "../domain/delivery-outcome.ts";
import { isoUtc } from "../domain/instant.ts";
import type { WebhookTarget } from "../domain/job.ts";
import type { Clock, Monotonic } from "../domain/ports/clock.ts";
import { DependencyUnavailable } from "../domain/ports/dependency-unavailable.ts";
import type { SecretHeaders, SecretHeaderValues } from "../domain/ports/secret-headers.ts";
import type { ClaimedRun, DeliveryOutcome } from "../domain/run.ts";
import { isReservedWebhookHeader } from "../domain/webhook-headers.ts";
import { DestinationRefused } from "../network/destination-refused.ts";
import type { Dial } from "../network/guarded-dial.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { LightSignal } from "../waiting/light-abort.ts";
import { aborted } from "../waiting/until-aborted.ts";
import { NotSent, post, TimedOut } from "./http-post.ts";
import { createReceiverConnections } from "./receiver-connections.ts";
import { receiverUrl } from "./receiver-url.ts";
import { BadHeader, headerLine } from "./request-text.ts";
import { sign } from "./signature.ts";

export interface WebhookSender {
  /**
   * One attempt. Expected failures are outcomes; `not_sent` when `maySend` said no, or the signal came,
   * before a byte had left.
   */
  send(attempt: {
    run: ClaimedRun;
    target: WebhookTarget;
    signingSecrets: readonly string[];
    signal: LightSignal;
    maySend: () => boolean;
  }): Promise<DeliveryOutcome | { kind: "not_sent" }>;
  /** Opens connections for `calls` attempts to the run's receiver that begin soon. Sends nothing. */
  warmUp(run: ClaimedRun, calls: number): void;
  close(): Promise<void>;
}

/** The call itself: headers, signature, deadline, and what the answer means. */
export function createWebhookSender(options: {
  dial: Dial;
  clock: Clock;
  monotonic: Monotonic;
  metrics: Metrics;
  /** For the User-Agent. */
  version: string;
  secretHeaders?: SecretHeaders;
}): WebhookSender {
  const { dial, clock, monotonic, metrics, version, secretHeaders } = options;
  const connections = createReceiverConnections({ dial, monotonic });

  return {
    send: async ({ run, target, signingSecrets, signal, maySend }) => {
      let jobHeaders = target.headers;
      if (target.headersFrom.length > 0) {
        const secret = await Promise.race([fromSecrets(run), aborted(signal)]);
        if (secret === undefined) return { kind: "not_sent" };
        // The receiver has not been called.
        if (secret.kind === "unavailable") return unanswered(secret.error, null);
        jobHeaders = { ...jobHeaders, ...secret.headers };
      }
      const callHeaders = callHeaderLines(run, target, signingSecrets);
      try {
        const url = receiverUrl(target.url);
        const timeoutMs = target.timeoutSeconds * 1_000;
        const answer = await post({
          take: () => connections.take(run.account, url.origin, timeoutMs),
          url,
          headers: jobHeaderLines(jobHeaders) + callHeaders,
          body: target.payload,
          signal,
          timeoutMs,
          maySend,
        });
        return classifyHttp(answer.status, answer.retryAfter, clock.now());
      } catch (error) {
        // The account's rules could not be read to check the destination: nobody has been called.
        if (error instanceof NotSent || error instanceof DependencyUnavailable)
          return { kind: "not_sent" };
        if (error instanceof TimedOut)
          return unanswered(`timed out: no answer within ${target.timeoutSeconds} s`);
        if (error instanceof DestinationRefused) {
          metrics.destinationsRefused.inc({ protocol: "webhook" });
          return { kind: "permanent", httpStatus: 500, error: error.message };
        }
        // After a bad header nobody has been called: it says nothing about the receiver.
        return unanswered(
          networkError(codeOf(error), "receiver"),
          error instanceof BadHeader ? null : undefined,
        );
      }
    },
    warmUp: ({ account, spec: { target } }, calls) => {
      // A URL from a resource has only passed the API server's schema.
      if (target.kind !== "webhook" || !URL.canParse(target.url)) return;
      const { origin } = receiverUrl(target.url);
      connections.warmUp(account, origin, calls);
    },
    close: () => connections.close(),
  };

  async function fromSecrets(run: ClaimedRun): Promise<SecretHeaderValues> {
    if (secretHeaders) return secretHeaders(run);
    return { kind: "unavailable", error: "headers from Secrets need Kubernetes" };
  }

  /** The headers that identify and sign the call. Their values need no check: all of them can be sent. */
  function callHeaderLines(
    run: ClaimedRun,
    { payload }: WebhookTarget,
    signingSecrets: readonly string[],
  ): string {
    const { id } = run;
    const timestamp = Math.floor(clock.now() / 1_000);
    const signature = sign({ id, timestamp, body: payload, secrets: signingSecrets });
    return `Content-Type: application/json\r
User-Agent: Carillon/${version}\r
webhook-id: ${id}\r
webhook-timestamp: ${timestamp}\r
webhook-signature: ${signature}\r
Carillon-Job-Id: ${run.jobId}\r
Carillon-Scheduled-At: ${isoUtc(run.scheduledAt)}\r
Carillon-Attempt: ${run.attempt}\r
`;
  }
}

/** The job's own headers, without those reserved for us. Values are checked here, wherever they come from. */
function jobHeaderLines(headers: Readonly<Record<string, string>>): string {
  let lines = "";
  for (const [name, value] of Object.entries(headers))
    if (!isReservedWebhookHeader(name)) lines += headerLine(name, value);
  return lines;
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  return "code" in error && typeof error.code === "string" ? error.code : undefined;
}
