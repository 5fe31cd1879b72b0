/**
 * Accepts every mail and throws it away. Started by sink-process.ts. It does nothing for a mail but answer, because a
 * real server would run elsewhere and use none of this machine's two cores.
 */
import { startScriptedServer } from "../test/integration/mail/scripted-server.ts";

const { port } = await startScriptedServer({});
process.send?.({ port });
process.on("disconnect", () => process.exit());
