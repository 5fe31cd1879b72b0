import { monotonic, random, timers } from "../../cmd/system.ts";

/** The clock, timers and randomness of the programs: tests of real servers need real time. */
export const realTime = { monotonic, random, timers };
