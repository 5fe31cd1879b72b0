import type { Route } from "playwright-core";

/** Answers as the gateway does without its database. */
export const databaseAway = (route: Route) =>
  route.fulfill({
    status: 503,
    json: { error: "the database is away", code: "dependency_unavailable" },
  });

/** As a proxy answers that has just been started, and knows no way to the gateway yet. */
export const noWayThere = (route: Route) =>
  route.fulfill({ status: 404, contentType: "text/plain", body: "404 page not found" });

/** The connection breaks, and nobody knows whether the request was carried out. */
export const cutOff = (route: Route) => route.abort("connectionreset");
