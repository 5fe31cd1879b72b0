/**
 * Resource versions of one kind can be compared as numbers (KEP-5504). A server that does not keep to that is served
 * without comparing.
 */
export function isComparable(version: string): boolean {
  return /^\d+$/.test(version);
}

/** False when they cannot be compared. */
export function isBefore(version: string, other: string): boolean {
  return isComparable(version) && isComparable(other) && BigInt(version) < BigInt(other);
}
