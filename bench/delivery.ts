/**
 * A queue of due webhooks emptied by one delivery worker: claimed, started, signed, sent through guard and
 * breaker, recorded. Beside bare POSTs, the least that a queue can do, the least that one can do which keeps our
 * promises, and graphile-worker with a task that is one POST.
 */
import { seededRandom, shuffled } from "../test/faults/seeded-random.ts";
import { startChild, type Child } from "./child-process.ts";
import type { Contender, Load } from "./contender.ts";
import { median } from "./median.ts";
import { startSink } from "./sink-process.ts";

const LOAD: Load = { count: 10_000, width: 64 };
/** Of each: the processor time of a run halves within 40,000, ours and graphile-worker's. */
const WARM_UP: Load = { count: 20_000, width: 64 };
const NAMES: readonly Contender[] = ["raw", "durable", "tuned", "promised", "bare", "plain"];
const ROUNDS = 10;

export interface DeliveryFigures {
  /** Medians of what a second saw done. */
  durable: number;
  raw: number;
  promisedQueue: number;
  bareQueue: number;
  graphileDefault: number;
  graphileTuned: number;
  /** Medians of what durable was of the others in the same round, and of the least of a queue ÷ raw, with our promises and without. */
  share: {
    ofRaw: number;
    ofTuned: number;
    ofDefault: number;
    promisedOfRaw: number;
    bareOfRaw: number;
  };
}

export async function benchDelivery(options: {
  databaseUrl: string;
  /** In a process apart, or in that of each contender: bare POSTs, which need no database, then have one core. */
  receiver: "apart" | "own";
}): Promise<DeliveryFigures> {
  const sink = options.receiver === "apart" ? await startSink("http-sink") : undefined;
  const receiver = sink === undefined ? [] : [String(sink.port)];
  const contenders = new Map<Contender, Child>();
  const measure = async (name: Contender, load: Load) =>
    (await contenders.get(name)?.ask(load)) as number;
  const rounds: Record<Contender, number>[] = [];
  const random = seededRandom(1);
  try {
    for (const name of NAMES) {
      contenders.set(
        name,
        await startChild("contender.ts", [name, options.databaseUrl, ...receiver]),
      );
      await measure(name, loadOf(name, WARM_UP));
    }
    // In turns: whatever else the machine does meanwhile is done to all of them, and who comes after whom is by chance.
    while (rounds.length < ROUNDS) {
      const round = { raw: 0, durable: 0, tuned: 0, promised: 0, bare: 0, plain: 0 };
      for (const name of shuffled(random, NAMES))
        round[name] = await measure(name, loadOf(name, LOAD));
      rounds.push(round);
      await sink?.ask("arrivals");
    }
  } finally {
    for (const contender of contenders.values()) contender.kill();
    sink?.close();
  }
  const perSecond = (name: Contender) => median(rounds.map((round) => round[name]));
  const share = (of: Contender, by: Contender) =>
    median(rounds.map((round) => round[of] / round[by]));
  return {
    durable: perSecond("durable"),
    raw: perSecond("raw"),
    promisedQueue: perSecond("promised"),
    bareQueue: perSecond("bare"),
    graphileDefault: perSecond("plain"),
    graphileTuned: perSecond("tuned"),
    share: {
      ofRaw: share("durable", "raw"),
      ofTuned: share("durable", "tuned"),
      ofDefault: share("durable", "plain"),
      promisedOfRaw: share("promised", "raw"),
      bareOfRaw: share("bare", "raw"),
    },
  };
}

/** graphile-worker with its defaults takes nine times as long. */
function loadOf(name: Contender, load: Load): Load {
  return name === "plain" ? { ...load, count: load.count / 5 } : load;
}
