import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";

/** By the PEM: a process has one. To parse what a system trusts takes a tenth of a second. */
const contexts = new Map<string, SecureContext>();

/**
 * For outgoing TLS: what the system trusts, and the given PEM certificates besides (Node's own `ca` would
 * put them in its place). Undefined: Node's default will do.
 */
export function trustBesides(ca: string | undefined): SecureContext | undefined {
  if (ca === undefined) return undefined;
  let context = contexts.get(ca);
  if (context === undefined) {
    const trusted = [...getCACertificates("default"), ca];
    context = createSecureContext({ ca: trusted, minVersion: "TLSv1.2" });
    contexts.set(ca, context);
  }
  return context;
}
