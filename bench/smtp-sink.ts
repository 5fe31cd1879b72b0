/**
 * Accepts every mail and throws it away. Run by sink-process.ts. A server elsewhere would take nothing of this machine's
 * two cores, and answer at once: this one knows no more of SMTP (RFC 5321) than nodemailer asks for.
 */
import { createServer, type AddressInfo, type Socket } from "node:net";

const END = "\r\n";
const END_OF_MAIL = "\r\n.\r\n";

function answer(command: string): string {
  switch (command.slice(0, 4).toUpperCase()) {
    case "EHLO":
      return "250-sink\r\n250 8BITMIME";
    case "DATA":
      return "354 go on";
    case "QUIT":
      return "221 bye";
    default:
      return "250 OK";
  }
}

function converse(socket: Socket): void {
  let unread = "";
  let inMail = false;
  socket.setEncoding("latin1");
  socket.on("error", () => socket.destroy());
  socket.write(`220 sink${END}`);
  socket.on("data", (chunk: string) => {
    unread += chunk;
    for (;;) {
      const end = inMail ? END_OF_MAIL : END;
      const at = unread.indexOf(end);
      if (at < 0) return;
      const reply = inMail ? "250 taken" : answer(unread.slice(0, at));
      unread = unread.slice(at + end.length);
      inMail = reply.startsWith("354");
      // The end of a mail without a text begins with that of DATA.
      if (inMail) unread = END + unread;
      socket.write(reply + END);
    }
  });
}

const server = createServer({ noDelay: true }, converse);
server.listen(0, "127.0.0.1", () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on("disconnect", () => process.exit());
