/** Something that this process shares with others answered with a refusal. */
export class DependencyRefusal extends Error {
  override name = "DependencyRefusal";
  /** For messages: `kubernetes`. */
  readonly dependency: string;
  /**
   * The request is not at fault: the process lacks a right, or something is not installed. The gateway answers 503
   * until the operator has put that right.
   */
  readonly barred: boolean;
  /** What the operator must install, in words that callers may read. */
  readonly missing: string | undefined;
  constructor(
    dependency: string,
    options: { barred: boolean; message: string; missing?: string | undefined },
  ) {
    super(options.message);
    this.dependency = dependency;
    this.barred = options.barred;
    this.missing = options.missing;
  }
}
