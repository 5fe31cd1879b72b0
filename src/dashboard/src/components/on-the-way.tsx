/** Something is asked for, and what was there stays until it comes: on a slow network for seconds. The click was heard. */
export function OnTheWay() {
  return <div className="on-the-way" role="progressbar" aria-label="Loading" />;
}
