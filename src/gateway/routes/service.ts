import type { Readiness } from "../../telemetry/readiness.ts";
import type { ApiAnswer } from "../endpoint.ts";

export function serviceRoutes(options: { ready: Readiness; openApi: object }) {
  return {
    async health(): Promise<ApiAnswer> {
      return { status: 200, body: { status: "ok" } };
    },

    async readiness(): Promise<ApiAnswer> {
      const report = await options.ready();
      return { status: report.status === "starting" ? 503 : 200, body: report };
    },

    async openApi(): Promise<ApiAnswer> {
      return { status: 200, body: options.openApi };
    },
  };
}
