/**
 * The store cannot hold what it was given, and would refuse it again. When several items were given together, at
 * least one of them is to blame: the others can be written without it.
 */
export class ContentRefused extends Error {
  override name = "ContentRefused";
}
