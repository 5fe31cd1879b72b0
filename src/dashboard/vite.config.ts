import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Static files for the gateway to serve under /dashboard/. Built by scripts/build-dashboard.ts. */
export default defineConfig({
  root: import.meta.dirname,
  base: "/dashboard/",
  plugins: [react()],
  // The gateway puts each answer's own nonce in its place.
  html: { cspNonce: "__CSP_NONCE__" },
  build: {
    // Nothing is inlined: the content security policy lets in files of our own only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    reportCompressedSize: false,
  },
});
