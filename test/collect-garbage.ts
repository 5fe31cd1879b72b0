import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
/** So that the memory that is left is in use. */
export const collectGarbage = runInNewContext("gc") as () => void;
