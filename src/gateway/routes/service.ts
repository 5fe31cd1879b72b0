import type { Readiness } from "../../telemetry/readiness.ts";
import type { ApiAnswer } from "../endpoint.ts";

export function serviceRoutes(options: { ready: Readiness; openApi: object }) {
  // Half a megabyte, and anybody may ask for it: all answers share these bytes, however slowly they are read. Of a text
  // Node would make a copy for each.
  const openApi = Buffer.from(JSON.stringify(options.openApi));
  return {
    async health(): Promise<ApiAnswer> {
      return { status: 200, body: { status: "ok" } };
    },

    async readiness(): Promise<ApiAnswer> {
      const report = await options.ready();
      return { status: report.status === "starting" ? 503 : 200, body: report };
    },

    async openApi(): Promise<ApiAnswer> {
      return { status: 200, body: openApi, shared: true };
    },
  };
}
