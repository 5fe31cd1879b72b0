import type { Page, Route } from "playwright-core";

/**
 * Requests `method path` are held until `release`, or are done and only their answers are held: all of them, or the
 * first so many.
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

/** Requests `method path` are done, and answered by somebody in between. */
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
