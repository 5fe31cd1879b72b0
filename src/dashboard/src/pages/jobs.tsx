import { Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconCalendarTime, IconPlus, IconSearch } from "@tabler/icons-react";
import { keepPreviousData, useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useDeferredValue, useRef, useState } from "react";
import { Link } from "react-router";
import { get, post, search } from "../api.ts";
import type { JobsPage as JobsAnswer } from "../api-types.ts";
import { BusyButton } from "../components/busy-button.tsx";
import { Empty } from "../components/empty.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Pager } from "../components/pager.tsx";
import { Problem } from "../components/problem.tsx";
import { useFilters } from "../filters.ts";
import { useLoaded } from "../loaded.ts";
import { JobTable } from "./job-table.tsx";

const PAGE_SIZE = 25;
/** The most jobs of one request; for more there are several requests, one after the other. */
const BULK_SIZE = 200;

interface BulkAnswer {
  changed: number;
  failures: { id: string; error: string }[];
}

export function JobsPage() {
  const filters = useFilters("q");
  const { page, change } = filters;
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const all = useRef<HTMLInputElement>(null);
  const bar = useRef<HTMLDivElement>(null);
  const client = useQueryClient();
  const [status, type, sort] = [filters.of("status"), filters.of("type"), filters.of("sort")];

  const query = {
    q: filters.settled,
    status,
    type,
    sort,
    limit: PAGE_SIZE,
    offset: (page - 1) * PAGE_SIZE,
  };
  const jobs = useLoaded({
    queryKey: ["jobs", query],
    queryFn: () => get<JobsAnswer>(`/jobs${search(query)}`),
    refetchInterval: 5_000,
    placeholderData: keepPreviousData,
  });
  const bulk = useMutation({
    mutationFn: async ({ action, ids }: { action: "pause" | "resume"; ids: string[] }) => {
      for (let index = 0; index < ids.length; index += BULK_SIZE) {
        const asked = ids.slice(index, index + BULK_SIZE);
        const answer = await post<BulkAnswer>("/jobs/bulk", { action, ids: asked });
        // At once: a later request may fail.
        told(action, asked, answer);
      }
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["jobs"] }),
  });
  const select = useCallback((ids: readonly string[], on: boolean) => {
    setSelected((before) => {
      const next = new Set(before);
      for (const id of ids)
        if (on) next.add(id);
        else next.delete(id);
      return next;
    });
  }, []);

  function told(
    action: "pause" | "resume",
    asked: readonly string[],
    { changed, failures }: BulkAnswer,
  ) {
    // With the selection the buttons may disappear, which must not lose the focus.
    if (bar.current?.contains(document.activeElement) === true)
      all.current?.focus({ preventScroll: true });
    select(asked, false);
    notifications.show({
      color: failures.length > 0 ? "orange.9" : "green.9",
      autoClose: failures.length === 0,
      message:
        `${changed} ${changed === 1 ? "job" : "jobs"} ${action}d` +
        (failures.length > 0 ? `; ${failures.length} not: ${failures[0]?.error}` : ""),
    });
  }

  const create = (
    <Button component={Link} to="/jobs/_new" leftSection={<IconPlus size={16} />}>
      Create job
    </Button>
  );
  // Deferred: the rows are rendered in slices, between which the page reacts to clicks and keys.
  const data = useDeferredValue(jobs.data);
  const none = data !== undefined && Object.keys(data.counts).length === 0;
  return (
    <Page
      title="Jobs"
      outdated={jobs.isPlaceholderData}
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
              maxLength={255}
              leftSection={<IconSearch size={16} />}
              flex={1}
              miw={{ base: "100%", xs: 200 }}
              value={filters.text}
              onChange={(event) => {
                filters.type(event.currentTarget.value);
              }}
            />
            <Select
              aria-label="Status"
              placeholder="Any status"
              clearable
              w={{ base: "calc(50% - 5px)", xs: 150 }}
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
              w={{ base: "calc(50% - 5px)", xs: 130 }}
              data={["webhook", "email"]}
              value={type}
              onChange={(value) => {
                change("type", value);
              }}
            />
            <Select
              aria-label="Order"
              w={{ base: "100%", xs: 150 }}
              allowDeselect={false}
              data={[
                { value: "created", label: "Newest first" },
                { value: "name", label: "By name" },
                { value: "next_run", label: "By next run" },
                { value: "last_run", label: "By last run" },
              ]}
              value={sort ?? "created"}
              onChange={(value) => {
                change("sort", value === "created" ? null : value);
              }}
            />
          </Group>
          {bulk.error && <Problem error={bulk.error} />}
          {data === undefined && !jobs.error && <Waiting rows={10} />}
          {jobs.error && <Problem error={jobs.error} retry={() => jobs.refetch()} />}
          {data && data.total === 0 && (
            <Text c="dimmed" py="xl" ta="center">
              No job matches. Change the search or the filters.
            </Text>
          )}
          {data && data.total > 0 && (
            <>
              <JobTable jobs={data.jobs} selected={selected} select={select} all={all} />
              {selected.size > 0 && (
                <Group
                  ref={bar}
                  gap="xs"
                  className="panel selection"
                  role="region"
                  aria-label="Selected jobs"
                >
                  <Text size="sm" className="number" role="status" flex={1}>
                    {selected.size} selected
                  </Text>
                  {(["pause", "resume"] as const).map((action) => (
                    <BusyButton
                      key={action}
                      size="xs"
                      variant="default"
                      busy={bulk.isPending}
                      onClick={() => {
                        bulk.mutate({ action, ids: [...selected] });
                      }}
                    >
                      {action === "pause" ? "Pause" : "Resume"}
                    </BusyButton>
                  ))}
                  <Button
                    size="xs"
                    variant="subtle"
                    color="gray"
                    c="dimmed"
                    onClick={() => {
                      all.current?.focus({ preventScroll: true });
                      setSelected(new Set());
                    }}
                  >
                    Clear
                  </Button>
                </Group>
              )}
            </>
          )}
          {/* Also when nothing matches: a screen reader reads the number out. */}
          {data && (
            <Pager
              total={data.total}
              noun="job"
              page={page}
              pageSize={PAGE_SIZE}
              current={!jobs.isPlaceholderData && data === jobs.data}
              change={(to, correcting) => {
                change("page", String(to), correcting);
              }}
            />
          )}
        </Stack>
      )}
    </Page>
  );
}
