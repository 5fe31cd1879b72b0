import { Badge, Checkbox, Table } from "@mantine/core";
import { memo, type Ref } from "react";
import { Link } from "react-router";
import type { JobRow } from "../api-types.ts";
import { Moment } from "../components/moment.tsx";
import { Status } from "../components/status.tsx";
import { TableCard } from "../components/table-card.tsx";
import { formatTime, MY_ZONE } from "../time.ts";

/** One page of the list of jobs, in which jobs can be selected. */
export const JobTable = memo(function JobTable(props: {
  jobs: readonly JobRow[];
  selected: ReadonlySet<string>;
  select: (ids: readonly string[], on: boolean) => void;
  /** The checkbox that selects all. It takes the focus when what had it disappears. */
  all: Ref<HTMLInputElement>;
}) {
  const { jobs, selected, select } = props;
  const chosen = jobs.filter(({ id }) => selected.has(id)).length;
  return (
    <TableCard
      minWidth={860}
      columns={[
        {
          width: 48,
          always: true,
          label: (
            <Checkbox
              ref={props.all}
              aria-label="Select all on this page"
              checked={chosen === jobs.length}
              indeterminate={chosen > 0 && chosen < jobs.length}
              onChange={(event) => {
                select(
                  jobs.map(({ id }) => id),
                  event.currentTarget.checked,
                );
              }}
            />
          ),
        },
        { label: "Job" },
        { label: "Schedule", width: 190 },
        { label: "Status", width: 130 },
        { label: "Next run", width: 135 },
        { label: "Last run", width: 160 },
      ]}
    >
      {jobs.map((job) => (
        // Keyed by id: when a new job appears above, the focus must stay on its job, not on its row.
        <Row key={job.id} job={job} selected={selected.has(job.id)} select={select} />
      ))}
    </TableCard>
  );
});

/** Memoised, so that only the rows of changed jobs are rendered again: each refresh loads all jobs of the page. */
const Row = memo(function Row(props: {
  job: JobRow;
  selected: boolean;
  select: (ids: readonly string[], on: boolean) => void;
}) {
  const { job } = props;
  return (
    <Table.Tr>
      <Table.Td>
        <Checkbox
          aria-label={`Select ${job.name}`}
          checked={props.selected}
          onChange={(event) => {
            props.select([job.id], event.currentTarget.checked);
          }}
        />
      </Table.Td>
      <Table.Td className="main">
        <div className="clip" dir="auto">
          <Link className="row-link" to={`/jobs/${job.id}`} title={job.name}>
            {job.name}
          </Link>
        </div>
        <div className="clip small" title={job.target}>
          {job.type} · {job.target}
        </div>
      </Table.Td>
      <Table.Td className="wide late">
        <div className="mono clip" title={job.cron_expression ?? undefined}>
          {job.cron_expression ?? "once"}
        </div>
        <div className="clip small">
          {job.run_at === null ? job.timezone : formatTime(job.run_at, MY_ZONE, false)}
        </div>
      </Table.Td>
      <Table.Td>
        <Status value={job.status} />
        {job.managed_by !== null && (
          <Badge variant="outline" color="gray" size="xs" tt="none" mt={4}>
            {job.managed_by}
          </Badge>
        )}
      </Table.Td>
      <Table.Td data-label="next" className="late">
        <Moment at={job.next_run_at} none="–" />
      </Table.Td>
      <Table.Td data-label="last" className="late">
        <div className="pair">
          {job.last_status !== null && (
            <span
              className={`dot ${job.last_status === "success" ? "good" : "bad"}`}
              role="img"
              aria-label={job.last_status}
            />
          )}
          <Moment at={job.last_run_at} />
        </div>
      </Table.Td>
    </Table.Tr>
  );
});
