import { stringify } from "yaml";
import { GROUP, KIND, PLURAL, VERSION } from "./scheduled-job.ts";
import { scheduledJobSpec } from "./scheduled-job-schema.ts";
import { scheduledJobStatus } from "./scheduled-job-status-schema.ts";
import { structuralSchema } from "./structural-schema.ts";

/** A column with a priority above 0 is shown by `kubectl get -o wide` only. */
type Column = readonly [
  name: string,
  type: string,
  jsonPath: string,
  description: string,
  priority?: number,
];

const COLUMNS: readonly Column[] = [
  ["Type", "string", ".status.type", "webhook or email"],
  ["Schedule", "string", ".status.schedule", "Cron expression, or time of the single run"],
  [
    "Zone",
    "string",
    ".spec.schedule.timeZone",
    "Time zone of the cron expression; UTC if empty",
    1,
  ],
  ["Suspended", "boolean", ".spec.suspend", "Whether scheduled runs are suspended"],
  ["Last", "date", ".status.lastScheduleTime", "The latest scheduled time that became a run"],
  ["Next", "string", ".status.nextScheduleTime", "The next scheduled time"],
  ["Status", "string", ".status.phase", "Active, Paused, Completed, Failed or Invalid"],
  [
    "Reason",
    "string",
    '.status.conditions[?(@.type=="Scheduled")].reason',
    "Reason for the status: a Paused job need not be suspended",
    1,
  ],
  [
    "Result",
    "string",
    ".status.lastExecution.status",
    "Status of the latest attempt, success or failed: an Active job may fail each time",
    1,
  ],
  ["Age", "date", ".metadata.creationTimestamp", "Time since the job was created"],
  ["Display name", "string", ".spec.displayName", "Friendly name: REST names resources itself", 1],
];

/** Fields that `kubectl get sj --field-selector` and a watch can select by. */
const SELECTABLE = [
  ".spec.suspend",
  ".spec.concurrencyPolicy",
  ".status.phase",
  ".status.type",
  ".status.lastExecution.status",
] as const;

/** The CustomResourceDefinition as an object. */
function customResourceDefinition() {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${PLURAL}.${GROUP}` },
    spec: {
      group: GROUP,
      scope: "Namespaced",
      names: {
        kind: KIND,
        listKind: `${KIND}List`,
        plural: PLURAL,
        singular: "scheduledjob",
        shortNames: ["sj"],
        categories: ["carillon"],
      },
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: COLUMNS.map(
            ([name, type, jsonPath, description, priority]) => ({
              name,
              type,
              jsonPath,
              description,
              ...(priority !== undefined && { priority }),
            }),
          ),
          selectableFields: SELECTABLE.map((jsonPath) => ({ jsonPath })),
          schema: {
            openAPIV3Schema: {
              type: "object",
              description:
                "A ScheduledJob calls a webhook or sends an email, on a cron schedule or once. It belongs to the Carillon account to which its namespace is bound.",
              required: ["spec"],
              properties: {
                apiVersion: { type: "string" },
                kind: { type: "string" },
                metadata: { type: "object" },
                spec: structuralSchema(scheduledJobSpec, "spec"),
                status: structuralSchema(scheduledJobStatus, "status"),
              },
            },
          },
        },
      ],
    },
  };
}

/** The text of crds/scheduledjobs.carillon.dev.yaml. */
export function generateCrd(): string {
  return `# Generated from the schema source of the REST API; do not edit: npm run generate.\n${stringify(customResourceDefinition(), { lineWidth: 0, aliasDuplicateObjects: false })}`;
}
