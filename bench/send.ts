import { createTransport } from "nodemailer";
import { run } from "../test/e2e/program.ts";
import { createApiClient } from "./api-client.ts";
import { concurrently } from "./concurrently.ts";
import { median } from "./median.ts";
import { startSink } from "./sink-process.ts";

const LOAD = { count: 2_000, width: 50 };
/** Not counted: until its code is compiled, the program takes half as much time again for a mail. */
const WARM_UP = { ...LOAD, count: 10_000 };
const ROUNDS = 7;
/** As many connections as the program's own pool has. */
const CONNECTIONS = 10;

/** Medians. */
export interface SendFigures {
  sendPerSecond: number;
  nodemailerPerSecond: number;
  /** send ÷ nodemailer of the same round. */
  share: number;
}

/** POST /send beside nodemailer alone, both pooled, to the same sink. */
export async function benchSend(target: {
  url: string;
  key: string;
  dataDir: string;
}): Promise<SendFigures> {
  const sink = await startSink("smtp-sink");
  const transport = createTransport({
    host: "127.0.0.1",
    port: sink.port,
    pool: true,
    maxConnections: CONNECTIONS,
    maxMessages: Infinity,
  });
  const alone = async (): Promise<void> => {
    await transport.sendMail({
      from: "a@example.com",
      to: "b@example.com",
      subject: "s",
      text: "t",
    });
  };
  const line = `admin smtp set --account default --host 127.0.0.1 --port ${sink.port} --from a@example.com --tls none`;
  const set = await run("cli", {
    args: line.split(" "),
    env: { CARILLON_DATA_DIR: target.dataDir },
  }).finished;
  if (set.code !== 0) throw new Error(set.stderr);
  const api = createApiClient({ ...target, width: LOAD.width });
  const ours = () => api.post("/send", { to: "b@example.com", subject: "s", body: "t" });
  const rounds: SendFigures[] = [];
  try {
    await concurrently(WARM_UP, alone);
    await concurrently(WARM_UP, ours);
    // In turns, so that whatever else the machine does meanwhile affects both.
    while (rounds.length < ROUNDS) {
      const nodemailerPerSecond = await concurrently(LOAD, alone);
      const sendPerSecond = await concurrently(LOAD, ours);
      const share = sendPerSecond / nodemailerPerSecond;
      rounds.push({ sendPerSecond, nodemailerPerSecond, share });
    }
  } finally {
    transport.close();
    await api.close();
    sink.close();
  }
  return {
    sendPerSecond: median(rounds.map((round) => round.sendPerSecond)),
    nodemailerPerSecond: median(rounds.map((round) => round.nodemailerPerSecond)),
    share: median(rounds.map((round) => round.share)),
  };
}
