import { monotonic, random, timers } from "../../cmd/system.ts";

/** The clock, timers and randomness that programs pass in; tests of real servers need real ones. */
export const realTime = { monotonic, random, timers };
