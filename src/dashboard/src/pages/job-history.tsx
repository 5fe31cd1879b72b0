import { Card, Group, Stack, Table, Text, Title } from "@mantine/core";
import { keepPreviousData } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../api.ts";
import type { Execution, Missed } from "../api-types.ts";
import { BarChart } from "../components/bar-chart.tsx";
import { BusyButton } from "../components/busy-button.tsx";
import { DataTable } from "../components/data-table.tsx";
import { Moment } from "../components/moment.tsx";
import { Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { Status } from "../components/status.tsx";
import { useLoaded } from "../loaded.ts";
import { formatDuration, formatTime } from "../time.ts";

const FIRST_ENTRIES = 25;
const MORE_ENTRIES = 100;
/** The most that the server gives at once. */
const MOST_ENTRIES = 1_000;

/** Why fire times did not run, in words for people. */
const REASONS: Record<string, string> = {
  downtime: "Carillon was not running",
  deadline: "it was later than the job allows",
  overlap: "an older run was unfinished",
  superseded: "the job was changed first",
  paused: "the job was paused first",
  deleted: "the job was deleted first",
  past_at_creation: "the time lay before the job's creation",
  account_deleted: "the account was deleted",
};

/** Resolves with what became of the job; also after its deletion. */
export function historyQuery(id: string, limit = FIRST_ENTRIES) {
  return {
    queryKey: ["executions", id, limit],
    queryFn: () =>
      get<(Execution | Missed)[]>(
        `/jobs/${encodeURIComponent(id)}/executions?include=missed&limit=${limit}`,
      ),
    refetchInterval: 3_000,
  };
}

export function JobHistory({ id, deleted }: { id: string; deleted: boolean }) {
  const [limit, setLimit] = useState(FIRST_ENTRIES);
  const history = useLoaded({ ...historyQuery(id, limit), placeholderData: keepPreviousData });
  const entries = history.data ?? [];
  const executions = entries.filter((entry) => entry.kind === "execution");
  return (
    <Card withBorder className="panel">
      <Stack gap="sm">
        <Title order={2} size="h5">
          Executions
        </Title>
        {history.isPending && <Waiting />}
        {history.error && <Problem error={history.error} />}
        {history.data && entries.length === 0 && (
          <Text size="sm" c="dimmed">
            {deleted
              ? "It has not run."
              : "It has not run yet. “Run now” tries it at once, whatever the schedule says."}
          </Text>
        )}
        {executions.length > 0 && (
          <>
            <Text size="xs" c="dimmed">
              {executions.length === 1
                ? "Duration and outcome"
                : `Duration and outcome of the last ${executions.length}, oldest first`}
            </Text>
            <BarChart
              name="Durations in milliseconds"
              good="ms, succeeded"
              bad="ms, failed"
              bars={bars(executions)}
            />
          </>
        )}
        {entries.length > 0 && (
          <DataTable
            minWidth={500}
            columns={[
              { label: "Outcome", width: 110 },
              { label: "Details" },
              { label: "Took", width: 90 },
              { label: "When", width: 150 },
            ]}
          >
            {entries.map((entry) =>
              entry.kind === "missed" ? (
                <MissedRow key={entry.id} missed={entry} />
              ) : (
                <ExecutionRow key={entry.id} execution={entry} />
              ),
            )}
          </DataTable>
        )}
        {limit < MOST_ENTRIES && (history.isPlaceholderData || entries.length === limit) && (
          <Group justify="center">
            <BusyButton
              variant="default"
              size="xs"
              busy={history.isPlaceholderData}
              onClick={() => {
                setLimit(Math.min(limit + MORE_ENTRIES, MOST_ENTRIES));
              }}
            >
              Show more
            </BusyButton>
          </Group>
        )}
        {entries.length === MOST_ENTRIES && (
          <Text size="sm" c="dimmed">
            These are the newest {MOST_ENTRIES.toLocaleString("en")}. The REST API has the others:{" "}
            <span className="mono break">
              GET /jobs/{id}/executions?include=missed&amp;offset={MOST_ENTRIES}
            </span>
          </Text>
        )}
      </Stack>
    </Card>
  );
}

/** Oldest first. Even a call that took less than a millisecond has a bar. */
function bars(executions: readonly Execution[]) {
  return executions.toReversed().map((execution) => {
    const size = Math.max(1, execution.duration_ms);
    const good = execution.status === "success";
    return {
      label: `${formatTime(execution.executed_at)} (attempt ${execution.attempt})`,
      axis: formatTime(execution.executed_at).split(", ").slice(1).join(", "),
      good: good ? size : 0,
      bad: good ? 0 : size,
    };
  });
}

function ExecutionRow({ execution }: { execution: Execution }) {
  const { attempt, trigger, http_status: status } = execution;
  const facts = [
    `status ${status}`,
    trigger === "manual" ? "run by hand" : `scheduled ${formatTime(execution.scheduled_at)}`,
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
  ];
  return (
    <Table.Tr>
      <Table.Td>
        <Status value={execution.status} />
      </Table.Td>
      <Table.Td className="wide late">
        <Text size="xs" c="dimmed">
          {facts.join(" · ")}
        </Text>
        {execution.error_message !== null && (
          <Text size="sm" className="break">
            {execution.error_message}
          </Text>
        )}
      </Table.Td>
      <Table.Td className="number">{formatDuration(execution.duration_ms)}</Table.Td>
      <Table.Td>
        <Moment at={execution.executed_at} />
      </Table.Td>
    </Table.Tr>
  );
}

function MissedRow({ missed }: { missed: Missed }) {
  return (
    <Table.Tr>
      <Table.Td>
        <Status value="missed" />
      </Table.Td>
      <Table.Td className="wide late">
        <Text size="sm">
          {missed.count === 1 ? "One time" : `${missed.count.toLocaleString("en")} times`} did not
          run: {REASONS[missed.reason] ?? missed.reason}
        </Text>
        <Text size="xs" c="dimmed">
          {formatTime(missed.first_scheduled_at)}
          {missed.count > 1 && ` to ${formatTime(missed.last_scheduled_at)}`}
        </Text>
      </Table.Td>
      <Table.Td>–</Table.Td>
      <Table.Td>
        <Moment at={missed.last_scheduled_at} />
      </Table.Td>
    </Table.Tr>
  );
}
