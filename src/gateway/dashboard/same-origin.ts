import { isLoopbackHost } from "../../domain/loopback-host.ts";
import { ApiError } from "../errors.ts";

/**
 * A request that changes something must come from the dashboard itself. Browsers say where a POST comes from
 * (Origin), and newer ones whether that is the same origin (Sec-Fetch-Site); no page can set either. Throws
 * ApiError 403 for another site, and for a request that does not say.
 */
export function refuseCrossOrigin(headers: {
  host: string;
  origin: string;
  secFetchSite: string;
}): void {
  const { host, origin, secFetchSite } = headers;
  const foreign = new ApiError("cross_origin", "the request does not come from the dashboard");
  if (secFetchSite !== "" && secFetchSite !== "same-origin") throw foreign;
  if (origin === "") {
    if (secFetchSite === "same-origin") return;
    throw foreign;
  }
  const url = URL.parse(origin);
  // Only the host is compared: TLS may end at a proxy before us.
  if (!url || url.host !== host.toLowerCase().replace(/:(?:80|443)$/, "")) throw foreign;
  if (url.protocol === "http:" && !isLoopbackHost(host))
    throw new ApiError(
      "cross_origin",
      "the dashboard needs https, except on the machine itself (localhost)",
    );
}
