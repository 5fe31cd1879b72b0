/**
 * Accepts every mail and throws it away. Run by sink-process.ts. It does no more for a mail than to answer: a server
 * elsewhere would take nothing of this machine's two cores.
 */
import { startScriptedServer } from "../test/integration/mail/scripted-server.ts";

const { port } = await startScriptedServer({});
process.send?.({ port });
process.on("disconnect", () => process.exit());
