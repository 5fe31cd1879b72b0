/** What one round does, drawn from its seed alone: the same seed gives the same jobs and faults. */
import { drawFaults, drawLastOutage, type Fault, type FaultPlan } from "./fault-plan.ts";
import { drawJobs, type JobPlan } from "./job-plan.ts";
import { seededRandom } from "./seeded-random.ts";

/** Jobs in PostgreSQL and both controllers scheduling, or jobs as resources and an elected leader. */
export const TOPOLOGIES = ["standalone", "kubernetes"] as const;
export type Topology = (typeof TOPOLOGIES)[number];

export interface Plan {
  topology: Topology;
  seed: number;
  /** Faults and fire times lie within. */
  seconds: number;
  jobs: readonly JobPlan[];
  faults: readonly FaultPlan[];
  /** Follows all the others: from its end on nothing is damaged. */
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
