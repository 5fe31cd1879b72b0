/**
 * Who may be called. `check` looks at literals and the scheme, for 400 at POST/PATCH;
 * the dial itself checks every resolved address again, inside the connector.
 */
export interface DestinationPolicy {
  /** Null: allowed as far as can be told without DNS. Else the rule and the setting that would allow it. */
  refusal(account: string, url: URL): Promise<string | null>;
}
