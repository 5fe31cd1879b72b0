/**
 * What one next() costs, over mixed expressions and zones, beside other libraries in the same run. The limit is the
 * product's own: a controller with 100,000 jobs calls next() at every fire time.
 */
import { CronExpressionParser } from "cron-parser";
import { Cron } from "croner";
import { compileSchedule } from "../src/domain/schedule.ts";

/** The most microseconds that one next() may take. */
const NEXT_FIRE_TIME_LIMIT_US = 10;

export interface NextFireTimeFigures {
  /** Microseconds per call, on average. */
  carillonUs: number;
  cronParserUs: number;
  cronerUs: number;
  limitUs: number;
  /** Milliseconds to count a year of a minutely job's fire times. */
  countYearMs: number;
  /** Microseconds to compile a schedule that is not cached. */
  compileUs: number;
}

const EXPRESSIONS = [
  "* * * * *",
  "*/5 * * * *",
  "7-59/13 * * * *",
  "0 * * * *",
  "30 2 * * *",
  "15,45 9-17 * * MON-FRI",
  "0 3 * * SUN",
  "0 0 1 * *",
  "0 0 13 * FRI",
  "0 12 */10 * 1",
  "0 6 31 * *",
  "0 0 1 1 *",
  "0 0 29 2 *",
] as const;

const ZONES = [
  "UTC",
  "Europe/London",
  "America/New_York",
  "Australia/Lord_Howe",
  "Africa/Casablanca",
  "Asia/Kathmandu",
  "Pacific/Apia",
  "America/Scoresbysund",
] as const;

const FROM = Date.UTC(2026, 0, 1, 0, 0, 30);
const HOUR = 3_600_000;

type Next = (after: number) => number | null;

export async function benchNextFireTime(): Promise<NextFireTimeFigures> {
  const mixed = EXPRESSIONS.flatMap((expression) =>
    ZONES.map((timeZone) => ({ expression, timeZone })),
  );
  const ours = mixed.map(({ expression, timeZone }): Next => {
    const schedule = compile(expression, timeZone);
    return (after) => schedule.next(after);
  });
  const cronParsers = mixed.map(({ expression, timeZone }): Next => {
    const cron = CronExpressionParser.parse(expression, { tz: timeZone });
    return (after) => {
      cron.reset(new Date(after));
      return cron.next().getTime();
    };
  });
  const croners = mixed.map(({ expression, timeZone }): Next => {
    const cron = new Cron(expression, { timezone: timeZone });
    return (after) => cron.nextRun(new Date(after))?.getTime() ?? null;
  });

  // Warms up, and builds the zones' tables, which a process does once per zone and 400 days (0.3 ms each).
  microsecondsPerCall(ours, 200);
  const minutely = compile("* * * * *", "Europe/London");
  return {
    carillonUs: microsecondsPerCall(ours, 2_000),
    // Fewer rounds: they take longer.
    cronParserUs: microsecondsPerCall(cronParsers, 10),
    cronerUs: microsecondsPerCall(croners, 10),
    limitUs: NEXT_FIRE_TIME_LIMIT_US,
    countYearMs:
      microsecondsPerCall([(after) => minutely.count(after, after + 365 * 24 * HOUR)], 100) / 1_000,
    compileUs: compileMicroseconds(),
  };
}

/** The instants move through three years, so that clock changes occur as often as they do in reality. */
function microsecondsPerCall(nexts: readonly Next[], rounds: number): number {
  const began = performance.now();
  for (let round = 0; round < rounds; round += 1) {
    const after = FROM + Math.floor((round / rounds) * 3 * 365 * 24) * HOUR;
    for (const next of nexts) next(after);
  }
  return ((performance.now() - began) * 1_000) / (rounds * nexts.length);
}

function compileMicroseconds(): number {
  const began = performance.now();
  for (let i = 0; i < 1_440; i += 1)
    compile(`${i % 60} ${Math.floor(i / 60)} 2-30/7 * 1-5`, "Europe/London");
  return ((performance.now() - began) * 1_000) / 1_440;
}

function compile(expression: string, timeZone: string) {
  const result = compileSchedule({ kind: "cron", expression, timeZone });
  if (!result.ok) throw new Error(result.finding.message);
  return result.schedule;
}

function us(value: number): string {
  return `${value.toFixed(2)} µs`;
}

if (import.meta.main) {
  const figures = await benchNextFireTime();
  console.log(`next fire time  ${us(figures.carillonUs)} (limit ${us(figures.limitUs)})`);
  console.log(`  cron-parser   ${us(figures.cronParserUs)}`);
  console.log(`  croner        ${us(figures.cronerUs)}`);
  console.log(`  a year of a minutely job counted in ${figures.countYearMs.toFixed(3)} ms`);
  console.log(`  compiling a new expression ${us(figures.compileUs)}`);
  if (figures.carillonUs > figures.limitUs) process.exitCode = 1;
}
