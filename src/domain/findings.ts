/** One thing wrong with a user's input: where (REST field path), and what to do about it. */
export interface Finding {
  field: string;
  message: string;
}

/** A user's text inside a message: short, and quoted so that its end is visible. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}

/** Throws the error; where a store's finding is about `field`, as about the field that the request has for it. */
export function renamed(field: string, inRequest: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof InvalidInput)) throw error;
    throw new InvalidInput(
      error.findings.map((found) =>
        found.field === field ? { ...found, field: inRequest } : found,
      ),
    );
  };
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
