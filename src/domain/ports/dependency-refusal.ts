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
  constructor(dependency: string, { barred, message }: { barred: boolean; message: string }) {
    super(message);
    this.dependency = dependency;
    this.barred = barred;
  }
}
