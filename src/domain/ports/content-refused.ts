/**
 * The store cannot hold what it was given, and would refuse the same again. Of several things that were given together
 * one is to blame: the others can be written without it.
 */
export class ContentRefused extends Error {
  override name = "ContentRefused";
}
