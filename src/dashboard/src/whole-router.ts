import { createContext, use } from "react";
import type { createBrowserRouter } from "react-router";

/**
 * The router itself, which knows where the user is going; what is rendered may not reflect the last click yet. It comes
 * by context because the router imports all pages, and pages use it: an import would be a cycle.
 */
export const WholeRouter = createContext<ReturnType<typeof createBrowserRouter> | null>(null);

export function useWholeRouter() {
  const router = use(WholeRouter);
  if (!router) throw new Error("only in pages of the router");
  return router;
}
