/** Accepts every mail and throws it away. Run by sink-process.ts. */
import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

let count = 0;
const smtp = new SMTPServer({
  authOptional: true,
  disabledCommands: ["STARTTLS", "AUTH"],
  disableReverseLookup: true,
  onData(stream, _session, callback) {
    stream.resume();
    stream.on("end", () => {
      count += 1;
      callback();
    });
  },
});
const server = smtp.listen(0, "127.0.0.1", () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on("message", () => process.send?.(count));
process.on("disconnect", () => process.exit());
