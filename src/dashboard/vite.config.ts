import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Builds the static files that the gateway serves under /dashboard/. Run by scripts/build-dashboard.ts. */
export default defineConfig({
  root: import.meta.dirname,
  base: "/dashboard/",
  plugins: [react()],
  // The gateway replaces this with a new nonce in each answer.
  html: { cspNonce: "__CSP_NONCE__" },
  build: {
    // Nothing is inlined, because the content security policy allows only files of the gateway.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    reportCompressedSize: false,
  },
});
