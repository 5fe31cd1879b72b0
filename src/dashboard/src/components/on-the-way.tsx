/**
 * Shows that a click has been heard, while the page still shows what was there before: on a slow network for seconds.
 */
export function OnTheWay() {
  return <div className="on-the-way" role="progressbar" aria-label="Loading" />;
}
