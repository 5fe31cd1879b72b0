import type { Route } from "playwright-core";

/** Answers as the gateway does without its database. */
export const databaseAway = (route: Route) =>
  route.fulfill({
    status: 503,
    json: { error: "the database is away", code: "dependency_unavailable" },
  });

/** The connection breaks, and nobody knows whether the request was carried out. */
export const cutOff = (route: Route) => route.abort("connectionreset");
