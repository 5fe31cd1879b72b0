/** 24 h of `Idempotency-Key`s. */
export interface IdempotencyKeys {
  begin(request: {
    account: string;
    /** Endpoint, for instance `POST /send`: keys of different endpoints do not meet. */
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
  /** A 2xx, or what stands for an uncertain effect: nobody may do the work again. */
  complete(token: string, response: { status: number; body: string }): Promise<void>;
  /** Not a 2xx: the key is free again. */
  abandon(token: string): Promise<void>;
}
