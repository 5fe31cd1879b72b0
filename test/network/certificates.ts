import { generateKeyPairSync, randomBytes, sign, type KeyObject } from "node:crypto";
import { isIP } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";

/** A certificate and its key, both in PEM, as `tls.createServer` takes them. */
export interface Certificate {
  cert: string;
  key: string;
}

export interface CertificateAuthority {
  /** In PEM, for those that are to trust it. */
  certificate: string;
  /** `names`: DNS names and addresses; of IPv6 all digits. `expired`: valid until yesterday. `weak`: RSA with 1,024 bits. */
  issue(names: readonly string[], options?: { expired?: boolean; weak?: boolean }): Certificate;
}

const DAY = 86_400_000;
const ECDSA_WITH_SHA256 = Buffer.from("06082a8648ce3d040302", "hex");
const COMMON_NAME = Buffer.from("0603550403", "hex");
const BASIC_CONSTRAINTS = Buffer.from("0603551d13", "hex");
const SUBJECT_ALT_NAME = Buffer.from("0603551d11", "hex");

/** A new authority. Its DER is written by hand (RFC 5280), so that nothing has to be installed for it. */
export function createAuthority(): CertificateAuthority {
  const { privateKey, publicKey } = keyPair();
  const issuer = { name: `Test authority ${randomBytes(4).toString("hex")}`, key: privateKey };
  return {
    certificate: x509({ subject: issuer.name, publicKey, issuer, names: [], authority: true }),
    issue: (names, { expired = false, weak = false } = {}) => {
      const own = weak ? generateKeyPairSync("rsa", { modulusLength: 1_024 }) : keyPair();
      const subject = names[0] ?? "nobody";
      const until = expired ? -DAY : DAY;
      return {
        cert: x509({ subject, publicKey: own.publicKey, issuer, names, until }),
        key: pem(own.privateKey),
      };
    },
  };
}

/** From now on this process trusts certificates of the authority, as with NODE_EXTRA_CA_CERTS. */
export function trust({ certificate }: CertificateAuthority): void {
  setDefaultCACertificates([...getCACertificates("default"), certificate]);
}

export function selfSigned(names: readonly string[]): Certificate {
  const { privateKey, publicKey } = keyPair();
  const name = names[0] ?? "nobody";
  const issuer = { name, key: privateKey };
  return { cert: x509({ subject: name, publicKey, issuer, names }), key: pem(privateKey) };
}

function keyPair() {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

function pem(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}

function x509(input: {
  subject: string;
  publicKey: KeyObject;
  issuer: { name: string; key: KeyObject };
  names: readonly string[];
  authority?: boolean;
  /** The end of its validity, in milliseconds from now. */
  until?: number;
}): string {
  const { subject, publicKey, issuer, names, authority = false, until = DAY } = input;
  const algorithm = sequence(ECDSA_WITH_SHA256);
  const extensions = [
    authority
      ? sequence(BASIC_CONSTRAINTS, der(0x01, [0xff]), der(0x04, sequence(der(0x01, [0xff]))))
      : sequence(SUBJECT_ALT_NAME, der(0x04, sequence(...names.map(generalName)))),
  ];
  const body = sequence(
    der(0xa0, der(0x02, [2])),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    distinguished(issuer.name),
    sequence(time(Date.now() - 30 * DAY), time(Date.now() + until)),
    distinguished(subject),
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = sign("sha256", body, issuer.key);
  const whole = sequence(body, algorithm, der(0x03, Buffer.concat([Buffer.of(0), signature])));
  const lines = whole.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function distinguished(name: string): Buffer {
  return sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(name)))));
}

/** dNSName [2] or iPAddress [7]. */
function generalName(name: string): Buffer {
  switch (isIP(name)) {
    case 4:
      return der(0x87, name.split(".").map(Number));
    case 6:
      return der(0x87, Buffer.from(name.replaceAll(":", ""), "hex"));
    default:
      return der(0x82, Buffer.from(name, "ascii"));
  }
}

function time(at: number): Buffer {
  const digits = new Date(at).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return der(0x18, Buffer.from(digits, "ascii"));
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

function der(tag: number, content: Uint8Array | readonly number[]): Buffer {
  const value = Buffer.from(content);
  const { length } = value;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), value]);
}
