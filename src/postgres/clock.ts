import { MINUTE, type Instant } from "../domain/instant.ts";
import { ClockUnknown, type Clock, type Monotonic } from "../domain/ports/clock.ts";
import type { Pool } from "./pool.ts";

export interface PostgresClock extends Clock {
  /** Measures now and again every interval. Resolves with the first measurement. */
  start(): Promise<void>;
  stop(): void;
  /** Milliseconds since PostgreSQL last answered; Infinity when it never did. */
  silence(): number;
}

interface Sample {
  /** PostgreSQL's time minus our monotonic time, ms. */
  offset: number;
  /** The true offset lies within ± this at `at`, ms. */
  uncertainty: number;
  at: number;
}

const QUESTION = {
  name: "clock",
  text: "select extract(epoch from clock_timestamp())::double precision * 1000 as ms",
};

/** The most that two machines' clocks drift apart, with a margin: 100 ppm. */
const DRIFT = 1e-4;
/** How many samples are kept. */
const KEPT = 16;
/** Pause after a measurement that failed: PostgreSQL's return must be noticed soon. */
const RETRY_MS = 2_000;
/** A step ahead by more than this is doubted if this machine's own clock does not show it. */
const DOUBTFUL_MS = MINUTE;

/**
 * PostgreSQL's clock, measured like NTP does it: the server's reading belongs to the middle of the round trip, and
 * the shortest recent round trip knows best. Jumps of this machine's own clock do not matter; a jump of the
 * server's (failover to another machine) shows as samples that contradict each other: the newest then wins.
 *
 * Unless the newest sample is far ahead, and this machine's clock disagrees: a server that comes up with the wrong
 * time is set right within seconds. Decisions made by the wrong time could not be undone, since no fire time is
 * decided twice, and each job would wait until the wrong time has come. So the step is doubted for a minute, in
 * which nobody schedules or starts anything, and `now` goes on by what was measured before.
 */
export function createPostgresClock(options: {
  pool: Pool;
  monotonic: Monotonic;
  /** This machine's own clock, used only to check a step of PostgreSQL's. */
  ownClock?: () => Instant;
  /** Called when a step ahead, by so many milliseconds, begins to be doubted. */
  onDoubt?: (aheadMs: number) => void;
  /** Default a minute. A step that lasts for longer is believed: PostgreSQL's clock is the one that counts. */
  doubtForMs?: number;
  /** Default 5,000. */
  intervalMs?: number;
  onError?: (error: unknown) => void;
}): PostgresClock {
  const { monotonic, ownClock } = options;
  const intervalMs = options.intervalMs ?? 5_000;
  const doubtForMs = options.doubtForMs ?? MINUTE;
  let samples: Sample[] = [];
  let best: Sample | undefined;
  /** The first sample of a step that is doubted. */
  let doubted: Sample | undefined;
  /** Monotonic time of PostgreSQL's last answer. */
  let answeredAt = -Infinity;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  async function measure(): Promise<void> {
    const client = await options.pool.connect();
    let broken = true;
    try {
      // The first query of a connection is also parsed and planned, which would take time before the clock is read.
      await client.query(QUESTION);
      const before = monotonic();
      const { rows } = await client.query<{ ms: number }>(QUESTION);
      const after = monotonic();
      broken = false;
      const ms = rows[0]?.ms;
      if (ms === undefined) return;
      add({ offset: ms - (before + after) / 2, uncertainty: (after - before) / 2, at: after });
    } finally {
      // A connection looks well even if its server has vanished: after a failure, ask on a new one.
      client.release(broken);
    }
  }

  function add(sample: Sample): void {
    answeredAt = sample.at;
    const agreeing = samples.filter((old) => agree(old, sample));
    if (agreeing.length === 0 && isDoubtful(sample)) {
      if (doubted === undefined || !agree(doubted, sample)) {
        doubted = sample;
        options.onDoubt?.(sample.offset - (best?.offset ?? sample.offset));
      }
      if (sample.at - doubted.at < doubtForMs) return;
    }
    doubted = undefined;
    samples = [...agreeing, sample].slice(-KEPT);
    best = samples.reduce((a, b) => (aged(b, sample.at) <= aged(a, sample.at) ? b : a));
  }

  function isDoubtful({ offset, at }: Sample): boolean {
    return (
      best !== undefined &&
      ownClock !== undefined &&
      offset - best.offset > DOUBTFUL_MS &&
      offset + at - ownClock() > DOUBTFUL_MS
    );
  }

  async function loop(first: () => void): Promise<void> {
    let ms = intervalMs;
    try {
      await measure();
      first();
    } catch (error) {
      options.onError?.(error);
      // Nothing can be scheduled before the first measurement: try again even sooner.
      ms = Math.min(best === undefined ? 500 : RETRY_MS, intervalMs);
    }
    if (!stopped) timer = setTimeout(() => void loop(first), ms).unref();
  }

  return {
    get known() {
      return best !== undefined && doubted === undefined;
    },
    now: () => {
      if (best === undefined)
        throw new ClockUnknown("PostgreSQL's clock has not been measured yet");
      return Math.floor(monotonic() + best.offset);
    },
    start: () => {
      stopped = false;
      return new Promise((resolve) => void loop(resolve));
    },
    silence: () => monotonic() - answeredAt,
    stop: () => {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

function agree(old: Sample, sample: Sample): boolean {
  return Math.abs(old.offset - sample.offset) <= aged(old, sample.at) + sample.uncertainty;
}

function aged(sample: Sample, now: number): number {
  return sample.uncertainty + (now - sample.at) * DRIFT;
}
