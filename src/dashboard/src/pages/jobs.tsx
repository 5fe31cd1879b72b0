import {
  Badge,
  Button,
  Card,
  Checkbox,
  Group,
  Pagination,
  Select,
  Stack,
  Table,
  Text,
  TextInput,
} from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconCalendarTime, IconPlus, IconSearch } from "@tabler/icons-react";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { get, post, search } from "../api.ts";
import type { JobRow, JobsPage as JobsAnswer } from "../api-types.ts";
import { Empty } from "../components/empty.tsx";
import { DataTable } from "../components/data-table.tsx";
import { Moment } from "../components/moment.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { Status } from "../components/status.tsx";

const PAGE_SIZE = 25;

export function JobsPage() {
  const [params, setParams] = useSearchParams();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const status = params.get("status");
  const type = params.get("type");
  const sort = params.get("sort") ?? "created";
  const page = Math.max(1, Number(params.get("page") ?? "1") || 1);
  const [text, setText] = useState(params.get("q") ?? "");
  const [q] = useDebouncedValue(text.trim(), 200);
  const client = useQueryClient();

  const query = { q, status, type, sort, limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE };
  const jobs = useQuery({
    queryKey: ["jobs", query],
    queryFn: () => get<JobsAnswer>(`/jobs${search(query)}`),
    refetchInterval: 5_000,
    placeholderData: keepPreviousData,
  });
  const bulk = useMutation({
    mutationFn: (action: "pause" | "resume") =>
      post<{ changed: number; failures: { id: string; error: string }[] }>("/jobs/bulk", {
        action,
        ids: [...selected],
      }),
    onSuccess: async ({ changed, failures }, action) => {
      setSelected(new Set());
      notifications.show({
        color: failures.length > 0 ? "orange.9" : "green.9",
        message:
          `${changed} ${changed === 1 ? "job" : "jobs"} ${action}d` +
          (failures.length > 0 ? `; ${failures.length} not: ${failures[0]?.error}` : ""),
      });
      await client.invalidateQueries({ queryKey: ["jobs"] });
    },
  });
  const change = (name: string, value: string | null) => {
    setParams((before) => {
      const next = new URLSearchParams(before);
      if (value === null || value === "") next.delete(name);
      else next.set(name, value);
      if (name !== "page") next.delete("page");
      return next;
    });
  };

  const create = (
    <Button component={Link} to="/jobs/new" leftSection={<IconPlus size={16} />}>
      Create job
    </Button>
  );
  const { data } = jobs;
  const none = data !== undefined && Object.keys(data.counts).length === 0;
  const pages = Math.max(1, Math.ceil((data?.total ?? 0) / PAGE_SIZE));
  return (
    <Page
      title="Jobs"
      about="Webhooks and emails, on a schedule or once. Every run is recorded, and so is every run that was missed."
      actions={create}
    >
      {none ? (
        <Empty icon={<IconCalendarTime />} title="No jobs yet" action={create}>
          A job calls a URL or sends an email: every night at three, every ten minutes, or once at a
          time of your choice. Programs make them with POST /jobs, and on Kubernetes with kubectl
          apply.
        </Empty>
      ) : (
        <Stack gap="sm">
          <Group gap="xs" align="flex-end">
            <TextInput
              aria-label="Search"
              placeholder="Search name, URL or address"
              leftSection={<IconSearch size={16} />}
              flex={1}
              miw={200}
              value={text}
              onChange={(event) => {
                setText(event.currentTarget.value);
                change("page", null);
              }}
            />
            <Select
              aria-label="Status"
              placeholder="Any status"
              clearable
              w={150}
              data={["active", "paused", "failing", "completed", "failed", "invalid"]}
              value={status}
              onChange={(value) => {
                change("status", value);
              }}
            />
            <Select
              aria-label="Type"
              placeholder="Any type"
              clearable
              w={130}
              data={["webhook", "email"]}
              value={type}
              onChange={(value) => {
                change("type", value);
              }}
            />
            <Select
              aria-label="Order"
              w={150}
              allowDeselect={false}
              data={[
                { value: "created", label: "Newest first" },
                { value: "name", label: "By name" },
                { value: "next_run", label: "By next run" },
                { value: "last_run", label: "By last run" },
              ]}
              value={sort}
              onChange={(value) => {
                change("sort", value);
              }}
            />
          </Group>
          {selected.size > 0 && (
            <Group gap="xs">
              <Text size="sm">{selected.size} selected</Text>
              <Button
                size="xs"
                variant="default"
                loading={bulk.isPending}
                onClick={() => {
                  bulk.mutate("pause");
                }}
              >
                Pause
              </Button>
              <Button
                size="xs"
                variant="default"
                loading={bulk.isPending}
                onClick={() => {
                  bulk.mutate("resume");
                }}
              >
                Resume
              </Button>
            </Group>
          )}
          {bulk.error && <Problem error={bulk.error} />}
          {jobs.isPending && <Waiting rows={10} />}
          {jobs.error && <Problem error={jobs.error} retry={() => void jobs.refetch()} />}
          {data && data.total === 0 && (
            <Text c="dimmed" py="xl" ta="center">
              No job matches. Change the search or the filters.
            </Text>
          )}
          {data && data.total > 0 && (
            <>
              <JobTable jobs={data.jobs} selected={selected} select={setSelected} />
              <Group justify="space-between">
                <Text size="sm" c="dimmed" className="number">
                  {data.total.toLocaleString("en")} {data.total === 1 ? "job" : "jobs"}
                </Text>
                {pages > 1 && (
                  <Pagination
                    total={pages}
                    value={Math.min(page, pages)}
                    size="sm"
                    getControlProps={(control) => ({ "aria-label": `${control} page` })}
                    getItemProps={(item) => ({ "aria-label": `Page ${item}` })}
                    onChange={(value) => {
                      change("page", String(value));
                    }}
                  />
                )}
              </Group>
            </>
          )}
        </Stack>
      )}
    </Page>
  );
}

function JobTable(props: {
  jobs: readonly JobRow[];
  selected: ReadonlySet<string>;
  select: (ids: ReadonlySet<string>) => void;
}) {
  const { jobs, selected, select } = props;
  const all = jobs.length > 0 && jobs.every(({ id }) => selected.has(id));
  const toggle = (ids: readonly string[], on: boolean) => {
    const next = new Set(selected);
    for (const id of ids)
      if (on) next.add(id);
      else next.delete(id);
    select(next);
  };
  return (
    <Card withBorder p={0} className="panel">
      <DataTable
        minWidth={760}
        columns={[
          {
            width: 48,
            label: (
              <Checkbox
                aria-label="Select all on this page"
                checked={all}
                onChange={(event) => {
                  toggle(
                    jobs.map(({ id }) => id),
                    event.currentTarget.checked,
                  );
                }}
              />
            ),
          },
          { label: "Job" },
          { label: "Schedule", width: 170 },
          { label: "Status", width: 110 },
          { label: "Next run", width: 140 },
          { label: "Last run", width: 170 },
        ]}
      >
        {jobs.map((job) => (
          <Table.Tr key={job.id}>
            <Table.Td>
              <Checkbox
                aria-label={`Select ${job.name}`}
                checked={selected.has(job.id)}
                onChange={(event) => {
                  toggle([job.id], event.currentTarget.checked);
                }}
              />
            </Table.Td>
            <Table.Td className="main">
              <div className="clip">
                <Link className="row-link" to={`/jobs/${job.id}`} title={job.name}>
                  {job.name}
                </Link>
              </div>
              <Text size="xs" c="dimmed" className="clip" title={job.target}>
                {job.type} · {job.target}
              </Text>
            </Table.Td>
            <Table.Td className="wide late">
              <div className="mono clip">{job.cron_expression ?? "once"}</div>
              <Text size="xs" c="dimmed" className="clip">
                {job.timezone ?? ""}
              </Text>
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
              <Text size="sm" component="div">
                <Moment at={job.next_run_at} none="–" />
              </Text>
            </Table.Td>
            <Table.Td data-label="last" className="late">
              <Group gap={6} wrap="nowrap">
                {job.last_status !== null && (
                  <span
                    className={`dot ${job.last_status === "success" ? "good" : "bad"}`}
                    role="img"
                    aria-label={job.last_status}
                  />
                )}
                <Text size="sm" component="div">
                  <Moment at={job.last_run_at} />
                </Text>
              </Group>
            </Table.Td>
          </Table.Tr>
        ))}
      </DataTable>
    </Card>
  );
}
