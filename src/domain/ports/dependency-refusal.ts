/** Something that this process shares with others answers, and the answer is no. */
export class DependencyRefusal extends Error {
  override name = "DependencyRefusal";
  /** For messages: `kubernetes`. */
  readonly dependency: string;
  /**
   * It is not this request that is at fault: the process lacks a right, or what it needs is not installed. The gateway
   * answers 503, until the operator has seen to it.
   */
  readonly barred: boolean;
  /** What the operator has yet to install there, in words for callers too. */
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
