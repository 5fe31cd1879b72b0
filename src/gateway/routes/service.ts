import type { ApiAnswer } from "../endpoint.ts";

export interface DependencyState {
  name: string;
  up: boolean;
}

/** Asks everything that the gateway stands on; a rejected promise counts as all down. */
export type Readiness = () => Promise<readonly DependencyState[]>;

export function serviceRoutes(options: { ready: Readiness; openApi: object }) {
  let everReady = false;
  return {
    async health(): Promise<ApiAnswer> {
      return { status: 200, body: { status: "ok" } };
    },

    /**
     * After the first success 200 for good: when a shared dependency fails, taking every gateway out of
     * its Service would turn 503 answers into refused connections.
     */
    async readiness(): Promise<ApiAnswer> {
      const states = await options.ready();
      const allUp = states.every((state) => state.up);
      everReady ||= allUp;
      return {
        status: everReady ? 200 : 503,
        body: {
          status: allUp ? "ready" : everReady ? "degraded" : "starting",
          dependencies: Object.fromEntries(
            states.map(({ name, up }) => [name, up ? "up" : "down"]),
          ),
        },
      };
    },

    async openApi(): Promise<ApiAnswer> {
      return { status: 200, body: options.openApi };
    },
  };
}
