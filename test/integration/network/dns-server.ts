import { createSocket } from "node:dgram";
import { once } from "node:events";

export interface DnsServer {
  /** For `Resolver.setServers`. */
  address: string;
  /** Names asked for, in order. */
  asked: string[];
  close(): void;
}

function record(address: string): Buffer {
  if (address.includes("."))
    return Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split(".").map(Number)]);
  const groups = address.split(":").map((group) => Number.parseInt(group, 16));
  const bytes = groups.flatMap((group) => [group >> 8, group & 255]);
  return Buffer.from([0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 0, 0, 16, ...bytes]);
}

/**
 * A DNS server of a few lines (RFC 1035): answers come from `answer`, which may say something else each time it is asked
 * for A, and is asked for AAAA with `asked` 0: of the addresses each kind has its own, IPv6 in eight groups. `null`: no
 * such name; `undefined`: silence.
 */
export async function startDnsServer(
  answer: (name: string, asked: number) => readonly string[] | null | undefined,
): Promise<DnsServer> {
  const socket = createSocket("udp4");
  const asked: string[] = [];
  const counts = new Map<string, number>();
  socket.on("message", (query, peer) => {
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString("latin1", at + 1, at + 1 + length));
      at += 1 + length;
    }
    const name = labels.join(".").toLowerCase();
    const question = query.subarray(12, at + 5);
    const wantsA = query.readUInt16BE(at + 1) === 1;
    const count = wantsA ? (counts.get(name) ?? 0) + 1 : 0;
    if (wantsA) {
      asked.push(name);
      counts.set(name, count);
    }
    const all = answer(name, count);
    if (all === undefined) return;
    const addresses = all?.filter((address) => address.includes(".") === wantsA);
    const header = Buffer.alloc(12);
    query.copy(header, 0, 0, 2);
    header.writeUInt16BE(addresses === undefined ? 0x8183 : 0x8180, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(addresses?.length ?? 0, 6);
    const records = (addresses ?? []).map(record);
    socket.send(Buffer.concat([header, question, ...records]), peer.port, peer.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    close: () => socket.close(),
  };
}
