import { createContext, use } from "react";
import type { createBrowserRouter } from "react-router";

/**
 * The router itself, for whoever has to know where somebody is going: what is rendered may not know of a click yet. By
 * context, because the router knows all pages, and pages ask it.
 */
export const WholeRouter = createContext<ReturnType<typeof createBrowserRouter> | null>(null);

export function useWholeRouter() {
  const router = use(WholeRouter);
  if (!router) throw new Error("only in pages of the router");
  return router;
}
