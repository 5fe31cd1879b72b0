/**
 * The entry of `npm start`. What V8 and type stripping make of the sources is kept for the next start,
 * which saves half of its time; that has to be switched on before anything else is imported.
 */
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/carillon", import.meta.url)));
await import("./standalone-process.ts");
