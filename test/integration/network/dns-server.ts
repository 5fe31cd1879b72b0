import { createSocket } from "node:dgram";
import { once } from "node:events";

export interface DnsServer {
  /** For `Resolver.setServers`. */
  address: string;
  /** The names of queries for A records, in order. */
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
 * A small DNS server (RFC 1035). `answer` returns the addresses of a name, IPv6 in eight groups; a query for A gets
 * the IPv4 ones, a query for AAAA the IPv6 ones. `asked` counts the queries for A, so that each can be answered
 * differently; for AAAA it is 0. `null`: no such name; `undefined`: no answer.
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
