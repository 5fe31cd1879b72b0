/** 24 h of `Idempotency-Key`s. */
export interface IdempotencyKeys {
  begin(request: {
    account: string;
    /** The endpoint, for instance `POST /send`: the same key at two endpoints is two keys. */
    scope: string;
    key: string;
    /** SHA-256 of the body as received. */
    fingerprint: string;
    /**
     * A request in flight for longer is taken to have died, and this one takes over. Left out where a
     * repeat could act twice (POST /send): such a key stays in flight for its 24 hours.
     */
    retakeAfterMs?: number;
  }): Promise<
    | { kind: "fresh"; token: string }
    | { kind: "replay"; status: number; body: string }
    | { kind: "mismatch" }
    | { kind: "in_flight"; forMs: number }
  >;
  /** The answer to replay: a 2xx, or an answer after an uncertain effect. Nobody may do the work again. */
  complete(token: string, response: { status: number; body: string }): Promise<void>;
  /** Not a 2xx: the key is free again. */
  abandon(token: string): Promise<void>;
}
