/** RFC 1123, 2.1, in Kubernetes' version: lower case only. */
const LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?";
const NAMESPACE = new RegExp(`^(?=.{1,63}$)${LABEL}$`);
const RESOURCE = new RegExp(`^(?=.{1,253}$)${LABEL}(?:\\.${LABEL})*$`);

/** A label: what a namespace may be named. */
export function isNamespaceName(text: string): boolean {
  return NAMESPACE.test(text);
}

/** A subdomain: what a ScheduledJob, a Lease and most other resources may be named. */
export function isResourceName(text: string): boolean {
  return RESOURCE.test(text);
}
