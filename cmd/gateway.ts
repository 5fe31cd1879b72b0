/** `npm run gateway`: the REST API. Stateless; any number of them run side by side. */
import { required } from "../src/configuration/configuration.ts";
import { runFinishedJobs } from "./finished-jobs-part.ts";
import { createGatewayPart } from "./gateway-part.ts";
import { listen, onPort } from "./listen.ts";
import { serve } from "./serving.ts";

await serve("gateway", async ({ configuration, foundation, store, readiness, shutdown }) => {
  const gateway = await createGatewayPart({ foundation, configuration, store, readiness });
  const at = { host: configuration.host, port: required(configuration, "port") };
  const url = await onPort("PORT", listen(gateway.server(), at));
  const finishedJobs = runFinishedJobs({ foundation, configuration, store });
  shutdown.add("mails", () => gateway.endMails());
  shutdown.add("gateway", async () => {
    await Promise.all([gateway.close(), finishedJobs.end()]);
  });
  foundation.log.info({ url }, "started");
  return { working: true };
});
