import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
/** Collects all garbage, so that only memory in use is left. */
export const collectGarbage = runInNewContext("gc") as () => void;
