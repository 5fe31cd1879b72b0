import { once } from "node:events";
import { createServer as createPlainServer } from "node:http";
import { createSecureServer } from "node:http2";
import { createServer } from "node:https";
import { connect, type AddressInfo } from "node:net";
import { createServer as createTlsServer, type TlsOptions, type TLSSocket } from "node:tls";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { createReceiverConnections } from "../../../src/delivery/receiver-connections.ts";
import {
  createAuthority,
  selfSigned,
  trust,
  type Certificate,
  type CertificateAuthority,
} from "../../network/certificates.ts";
import { until } from "../../until.ts";
import { claimedRun } from "./claimed-run.ts";
import { loopbackSender } from "./loopback-sender.ts";
import { SECRET } from "./worker-fixture.ts";

const NAME = "receiver.example";
const authority = createAuthority();
const asked: string[] = [];
const dial = {
  lookup: async (name: string) => {
    asked.push(name);
    return { addresses: ["127.0.0.1"] };
  },
};
trust(authority);
const sender = loopbackSender({ dial });

interface Call {
  host: string | undefined;
  servername: string | false | null;
  body: string;
}

let servers: { close(): unknown; closeAllConnections?(): void }[] = [];
afterEach(() => {
  for (const server of servers) {
    server.closeAllConnections?.();
    server.close();
  }
  servers = [];
});
afterAll(async () => {
  await sender.close();
});

/** A certificate, followed by that of its authority. */
function withAuthority(issuer: CertificateAuthority): Certificate {
  const { cert, key } = issuer.issue([NAME]);
  return { cert: cert + issuer.certificate, key };
}

async function receiver(
  certificate: Certificate,
  onHandshake: () => void = () => undefined,
): Promise<{ port: number; calls: Call[] }> {
  const calls: Call[] = [];
  const server = createServer(certificate, (request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      const { servername } = request.socket as TLSSocket;
      calls.push({ host: request.headers.host, servername, body });
      response.end();
    });
  });
  server.on("secureConnection", onHandshake);
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, calls };
}

function send(url: string) {
  const run = claimedRun({ url, payload: '{"a":1}', timeoutSeconds: 5 });
  if (run.spec.target.kind !== "webhook") throw new Error("a webhook");
  return sender.send({
    run,
    target: run.spec.target,
    signingSecrets: [SECRET],
    signal: new AbortController().signal,
    maySend: () => true,
  });
}

describe("https", () => {
  test("of a trusted authority: SNI and Host are the URL's, the connection is the checked one", async () => {
    const { port, calls } = await receiver(authority.issue([NAME]));
    asked.length = 0;
    expect(await send(`https://${NAME}:${port}/`)).toEqual({ kind: "delivered", httpStatus: 200 });
    expect(calls).toEqual([{ host: `${NAME}:${port}`, servername: NAME, body: '{"a":1}' }]);
    // The guard resolves the name once; it is not resolved again to connect.
    expect(asked).toEqual([NAME]);
  });

  test("to a name with the dot of a complete one: SNI and certificate have none", async () => {
    const { port, calls } = await receiver(authority.issue([NAME]));
    expect(await send(`https://${NAME}.:${port}/`)).toMatchObject({ kind: "delivered" });
    expect(calls).toMatchObject([{ host: `${NAME}.:${port}`, servername: NAME }]);
  });

  test("is negotiated once for calls one after another", async () => {
    let handshakes = 0;
    const { port, calls } = await receiver(authority.issue([NAME]), () => (handshakes += 1));
    const url = `https://${NAME}:${port}/`;
    for (let n = 0; n < 3; n += 1) expect(await send(url)).toMatchObject({ kind: "delivered" });
    expect({ calls: calls.length, handshakes }).toEqual({ calls: 3, handshakes: 1 });
  });

  test("is negotiated ahead for a call that will come, without a call's time limit", async () => {
    let handshakes = 0;
    const { port } = await receiver(authority.issue([NAME]), () => (handshakes += 1));
    const url = `https://${NAME}:${port}/`;
    sender.warmUp(claimedRun({ url }), 1);
    await until("it has been negotiated", () => handshakes === 1);
    expect(await send(url)).toMatchObject({ kind: "delivered" });
    expect(handshakes).toBe(1);
  });

  test("leaves no timer behind that would end a later call", async () => {
    const { port } = await receiver(authority.issue([NAME]));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      expect(await send(`https://${NAME}:${port}/`)).toMatchObject({ kind: "delivered" });
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test("to an IPv6 address: the certificate must be for the address", async () => {
    const { port } = await receiver(authority.issue(["2001:0db8:0000:0000:0000:0000:0000:0001"]));
    const connections = createReceiverConnections({
      dial: async () => {
        const socket = connect(port, "127.0.0.1");
        await once(socket, "connect");
        return socket;
      },
      monotonic: () => 0,
    });
    try {
      const taken = await connections.take("a", `https://[2001:db8::1]:${port}`, 5_000);
      expect(taken.gone).toBe(false);
    } finally {
      await connections.close();
    }
  });

  test("to an address: the certificate must be for the address, and there is no SNI", async () => {
    const { port, calls } = await receiver(authority.issue(["127.0.0.1"]));
    expect(await send(`https://127.0.0.1:${port}/`)).toMatchObject({ kind: "delivered" });
    expect(calls).toMatchObject([{ host: `127.0.0.1:${port}`, servername: false }]);
  });

  test.each([
    {
      is: "for another name",
      certificate: () => authority.issue(["other.example"]),
      url: NAME,
      error: "the receiver's certificate is for another name",
    },
    {
      is: "for localhost, when an address was called",
      certificate: () => authority.issue(["localhost"]),
      url: "127.0.0.1",
      error: "the receiver's certificate is for another name",
    },
    {
      is: "for the name, when an address was called",
      certificate: () => authority.issue([NAME]),
      url: "127.0.0.1",
      error: "the receiver's certificate is for another name",
    },
    {
      is: "expired",
      certificate: () => authority.issue([NAME], { expired: true }),
      url: NAME,
      error: "the receiver's certificate has expired",
    },
    {
      is: "weak",
      // Lets the server use such a certificate.
      certificate: () => ({
        ...authority.issue([NAME], { weak: true }),
        ciphers: "DEFAULT:@SECLEVEL=0",
      }),
      url: NAME,
      error: "the receiver's certificate is refused; its key or its signature may be too weak",
    },
    {
      is: "self-signed",
      certificate: () => selfSigned([NAME]),
      url: NAME,
      error: "the receiver's certificate is self-signed",
    },
    {
      is: "of an authority that nobody trusts",
      certificate: () => createAuthority().issue([NAME]),
      url: NAME,
      error:
        "the receiver's certificate is of an authority that is not known here, or comes without the certificates in between",
    },
    {
      is: "of an authority that nobody trusts, which comes along",
      certificate: () => withAuthority(createAuthority()),
      url: NAME,
      error: "the receiver's certificate is of an authority that is not known here",
    },
  ])("with a certificate that is $is: not a byte of the request", async (row) => {
    const { port, calls } = await receiver(row.certificate());
    expect(await send(`https://${row.url}:${port}/`)).toEqual({
      kind: "retryable",
      httpStatus: 500,
      error: row.error,
      retryAfterMs: null,
    });
    expect(calls).toEqual([]);
  });

  const own = (): Certificate => authority.issue([NAME]);
  const tls = (options: TlsOptions) => createTlsServer({ ...own(), ...options });
  test.each([
    {
      is: "speaks TLS 1.1",
      server: () => tls({ minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" }),
      error: "the receiver does not speak TLS 1.2 or 1.3",
    },
    {
      is: "breaks the handshake off",
      server: () => tls({ ciphers: "PSK", maxVersion: "TLSv1.2" }),
      error: "the receiver refused the TLS handshake; it may ask for a client certificate",
    },
    {
      is: "asks for a client certificate",
      server: () => tls({ requestCert: true, minVersion: "TLSv1.3" }),
      error: "the receiver asks for a client certificate; there is none",
    },
    {
      is: "speaks HTTP/2 alone",
      server: () => createSecureServer(own()),
      error: "the receiver does not speak HTTP/1.1",
    },
  ])("to a receiver that $is fails in words", async ({ server, error }) => {
    const started = server();
    started.on("tlsClientError", () => undefined);
    servers.push(started);
    started.listen(0, "127.0.0.1");
    await once(started, "listening");
    const { port } = started.address() as AddressInfo;
    expect(await send(`https://${NAME}:${port}/`)).toMatchObject({ kind: "retryable", error });
  });

  test("to a receiver of plain text fails and sends it nothing of the request", async () => {
    let requests = 0;
    const server = createPlainServer((_request, response) => {
      requests += 1;
      response.end();
    });
    servers.push(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    expect(await send(`https://${NAME}:${port}/`)).toEqual({
      kind: "retryable",
      httpStatus: 500,
      error: "the receiver does not speak TLS",
      retryAfterMs: null,
    });
    expect(requests).toBe(0);
  });
});
