/** What one round does. It depends on the seed alone: the same seed gives the same jobs and faults. */
import { drawFaults, drawLastOutage, type Fault, type FaultPlan } from "./fault-plan.ts";
import { drawJobs, type JobPlan } from "./job-plan.ts";
import { seededRandom } from "./seeded-random.ts";

/** `standalone`: jobs in PostgreSQL, and both controllers schedule. `kubernetes`: jobs as resources, and a leader. */
export const TOPOLOGIES = ["standalone", "kubernetes"] as const;
export type Topology = (typeof TOPOLOGIES)[number];

export interface Plan {
  topology: Topology;
  seed: number;
  /** Length of the round, within which its faults and fire times lie. */
  seconds: number;
  jobs: readonly JobPlan[];
  faults: readonly FaultPlan[];
  /** Follows all other faults: after it nothing is damaged. */
  lastOutage: Fault;
}

export function createPlan(options: {
  topology: Topology;
  seed: number;
  seconds: number;
  jobs: number;
}): Plan {
  const random = seededRandom(options.seed);
  return {
    ...options,
    jobs: drawJobs(random, options),
    faults: drawFaults(random, options),
    lastOutage: drawLastOutage(random, options),
  };
}
