/** Who may be called, as far as can be told without DNS: the dial checks each resolved address again. */
export interface DestinationPolicy {
  /** Null: allowed. Otherwise, for a 400: the rule against it, and the setting that would allow it. */
  refusal(account: string, url: URL): Promise<string | null>;
  /** The same of an account's SMTP server: a name, or a literal with or without brackets. */
  mailServerRefusal(
    account: string,
    server: { host: string; port: number },
  ): Promise<string | null>;
}
