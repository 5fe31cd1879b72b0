export type Protocol = "webhook" | "smtp";

/** https://fetch.spec.whatwg.org/#port-blocking: ports that no browser will speak HTTP to. */
const BAD_PORTS = [
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
  103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
  512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
  995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
  6669, 6679, 6697, 10080,
];

/** Docker, etcd, PostgreSQL, Redis, Kubernetes' API server, kubelet, memcached. */
const INFRASTRUCTURE_PORTS = [2375, 2379, 5432, 6379, 6443, 10250, 11211];

const WEBHOOK_BLOCKED = new Set([...BAD_PORTS, ...INFRASTRUCTURE_PORTS]);
const SMTP_OPEN = new Set([25, 465, 587, 2525]);

export function portBlocked(protocol: Protocol, port: number): boolean {
  return protocol === "smtp" ? !SMTP_OPEN.has(port) : WEBHOOK_BLOCKED.has(port);
}
