/** One thing wrong with a user's input: where (REST field path), and what to do about it. */
export interface Finding {
  field: string;
  message: string;
}

/** A user's input cannot be accepted. The gateway answers 400 with the findings. */
export class InvalidInput extends Error {
  readonly findings: readonly Finding[];
  constructor(findings: readonly Finding[]) {
    super(findings.map((f) => (f.field ? `${f.field}: ${f.message}` : f.message)).join("; "));
    this.name = "InvalidInput";
    this.findings = findings;
  }
}
