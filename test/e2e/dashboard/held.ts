import type { Page, Route } from "playwright-core";

/**
 * Holds the requests `method path` until `release`, or with "answer" lets them be done and holds only their answers.
 * With `times`, only the first so many. `asked` resolves when the first is held.
 */
export async function hold(
  page: Page,
  method: string,
  path: string,
  what: "request" | "answer" = "request",
  times = Infinity,
) {
  const asked = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  let held = 0;
  await page.route(path, async (route) => {
    if (route.request().method() !== method || held === times) return route.fallback();
    held += 1;
    const response = what === "answer" ? await route.fetch() : undefined;
    asked.resolve();
    await released.promise;
    await (response ? route.fulfill({ response }) : route.continue());
  });
  return { asked: asked.promise, release: () => released.resolve() };
}

/** Lets the requests `method path` be done, but has them answered by `answer`, as by a proxy in between. */
export async function doneBut(
  page: Page,
  method: string,
  path: string,
  answer: (route: Route) => Promise<void>,
) {
  await page.route(path, async (route) => {
    if (route.request().method() !== method) return route.fallback();
    await route.fetch();
    await answer(route);
  });
}
