/** How receivers check a call, with the libraries of standardwebhooks.com and without. */
export const SNIPPETS: readonly { language: string; code: string }[] = [
  {
    language: "Node.js",
    code: `import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.CARILLON_SIGNING_SECRET);

// \`body\` is the raw request body, before any JSON parsing.
const payload = webhook.verify(body, {
  "webhook-id": request.headers["webhook-id"],
  "webhook-timestamp": request.headers["webhook-timestamp"],
  "webhook-signature": request.headers["webhook-signature"],
});`,
  },
  {
    language: "Python",
    code: `import os
from standardwebhooks import Webhook

webhook = Webhook(os.environ["CARILLON_SIGNING_SECRET"])

# body: the raw request body, before any JSON parsing
payload = webhook.verify(body, request.headers)`,
  },
  {
    language: "Go",
    code: `import standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

wh, err := standardwebhooks.NewWebhook(os.Getenv("CARILLON_SIGNING_SECRET"))
if err != nil {
	log.Fatal(err)
}

// body: the raw request body, before any JSON parsing
if err := wh.Verify(body, r.Header); err != nil {
	http.Error(w, "bad signature", http.StatusUnauthorized)
	return
}`,
  },
  {
    language: "By hand",
    code: `# Signed is: webhook-id, a dot, webhook-timestamp, a dot, the raw body.
# The key is what follows "whsec_", base64-decoded.
key=$(printf %s "\${CARILLON_SIGNING_SECRET#whsec_}" | base64 -d | xxd -p -c 256)
printf '%s.%s.%s' "$WEBHOOK_ID" "$WEBHOOK_TIMESTAMP" "$BODY" |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64
# Compare with each "v1,..." of webhook-signature, and refuse timestamps
# that are more than five minutes off.`,
  },
];
