import { Alert, Anchor, Button, Grid, Group, Menu, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconDots, IconPencil, IconPlayerPlay } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef, useState, type Ref } from "react";
import { Link, useParams } from "react-router";
import { ApiError, call, post } from "../api.ts";
import type { JobView } from "../api-types.ts";
import { BusyButton } from "../components/busy-button.tsx";
import { Confirm } from "../components/confirm.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { Status } from "../components/status.tsx";
import { useLoaded } from "../loaded.ts";
import { useNavigateFromHere } from "../still-here.ts";
import { curlOf } from "./job-curl.ts";
import { JobDetails } from "./job-details.tsx";
import { historyQuery, JobHistory } from "./job-history.tsx";
import { jobQuery } from "./job-query.ts";
import { scheduleActionOf } from "./schedule-action.ts";

export function JobPage() {
  const { id = "" } = useParams();
  // By job: a question or an error about one job must not be shown for the next.
  return <OneJob key={id} id={id} />;
}

function OneJob({ id }: { id: string }) {
  const path = `/jobs/${encodeURIComponent(id)}`;
  const [deleting, setDeleting] = useState(false);
  const schedule = useRef<HTMLButtonElement>(null);
  const more = useRef<HTMLButtonElement>(null);
  const navigate = useNavigateFromHere();
  const client = useQueryClient();
  const view = useLoaded({ ...jobQuery(id), refetchInterval: 3_000 });
  // Two mutations, because the end or the failure of the one says nothing about the other.
  const run = useAction(id);
  const change = useAction(id, () => {
    // With the halt of a managed job its button disappears, which must not lose the focus.
    if (managed && document.activeElement === schedule.current) more.current?.focus();
  });
  const ask = (action: Action) => {
    const [asked, other] = action === "run" ? [run, change] : [change, run];
    // The next click hides the error of the last one.
    if (other.isError) other.reset();
    asked.mutate(action);
  };
  const { data } = view;
  const job = data?.job;
  const managed = data?.managed_by !== null && data !== undefined;
  const possible = data && scheduleActionOf(data);
  const gone = view.error instanceof ApiError && view.error.code === "not_found";
  return (
    <Page
      title={job?.name ?? "Job"}
      above={
        <Anchor component={Link} to="/jobs" size="sm">
          ← Jobs
        </Anchor>
      }
      about={
        (job ?? gone) && (
          <Group gap="xs">
            {job && !gone && <Status value={job.status} />}
            <span className="mono break">{id}</span>
          </Group>
        )
      }
      actions={
        job &&
        !gone && (
          <>
            <BusyButton
              leftSection={<IconPlayerPlay size={16} />}
              busy={run.isPending}
              onClick={() => {
                ask("run");
              }}
            >
              Run now
            </BusyButton>
            {possible && (
              <BusyButton
                ref={schedule}
                variant="default"
                busy={change.isPending}
                onClick={() => {
                  ask(possible);
                }}
              >
                {possible === "resume" ? "Resume" : "Pause"}
              </BusyButton>
            )}
            {!managed && (
              <Button
                variant="default"
                component={Link}
                to={`/jobs/${id}/edit`}
                leftSection={<IconPencil size={16} />}
              >
                Edit
              </Button>
            )}
            <More view={data} remove={setDeleting} button={more} />
          </>
        )
      }
    >
      {view.isPending && <Waiting rows={8} />}
      {view.error && !gone && <Problem error={view.error} />}
      {gone && <Gone id={id} seen={data !== undefined} />}
      {run.error && <Problem error={run.error} />}
      {change.error && <Problem error={change.error} />}
      {!gone && data?.managed_by && (
        <Alert color="orange">
          <strong>{data.managed_by.tool}</strong> manages this job ({data.managed_by.name}). Change,
          pause or delete it there; a change made here would be undone. Running it now is possible.
        </Alert>
      )}
      {!gone && data?.job.halted === true && (
        <Alert color="red">
          The receiver answered 410 Gone: no scheduled run starts until you resume the job or change
          it. Running it now is possible.
        </Alert>
      )}
      {!gone && job && job.circuit !== "closed" && (
        <Alert color="orange">
          The {job.type === "webhook" ? "receiver" : "mail server"} keeps failing, and is not called
          for now (its circuit is {job.circuit.replace("_", " ")}). Runs wait until it answers
          again; one that has waited for {job.delivery_deadline_seconds} s fails.
        </Alert>
      )}
      {data && (
        <Grid>
          <Grid.Col span={{ base: 12, lg: 7 }}>
            <JobHistory id={id} deleted={gone} />
          </Grid.Col>
          <Grid.Col span={{ base: 12, lg: 5 }}>
            <JobDetails view={data} />
          </Grid.Col>
        </Grid>
      )}
      <Confirm
        opened={deleting}
        title="Delete this job?"
        action="Delete the job"
        returnTo={more}
        close={() => {
          setDeleting(false);
        }}
        run={async () => {
          await call("DELETE", path);
          await client.invalidateQueries({ queryKey: ["jobs"] });
          await navigate("/jobs");
        }}
      >
        <Text className="break">
          <strong dir="auto">{job?.name}</strong> will not run again, and cannot be recovered. Its
          history stays.
        </Text>
      </Confirm>
    </Page>
  );
}

/** A job that is not there: it was deleted, or it never was and has no history. `seen`: the page has shown it. */
function Gone({ id, seen }: { id: string; seen: boolean }) {
  const history = useLoaded(historyQuery(id));
  if (!seen && history.isPending) return <Waiting rows={8} />;
  if (!seen && history.data === undefined && history.error)
    return <Problem error={history.error} />;
  return (
    <>
      <Alert color="orange">This job was deleted.</Alert>
      {!seen && <JobHistory id={id} deleted />}
    </>
  );
}

type Action = "run" | "pause" | "resume";

/** `done` is called before the job is loaded again. */
function useAction(id: string, done?: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (action: Action) => post(`/jobs/${encodeURIComponent(id)}/${action}`),
    onSuccess: async (_, action) => {
      const said = { run: "Run queued", pause: "Job paused", resume: "Job resumed" };
      notifications.show({ color: "green.9", message: said[action] });
      done?.();
      await client.invalidateQueries({ queryKey: ["job", id] });
      await client.invalidateQueries({ queryKey: ["executions", id] });
    },
  });
}

function More(props: {
  view: JobView;
  remove: (open: boolean) => void;
  button: Ref<HTMLButtonElement>;
}) {
  const { view, remove, button } = props;
  return (
    <Menu position="bottom-end" width={230}>
      <Menu.Target>
        <Button ref={button} variant="default" px="xs" aria-label="More actions">
          <IconDots size={18} />
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component={Link} to={`/jobs/_new?from=${encodeURIComponent(view.job.id)}`}>
          Duplicate
        </Menu.Item>
        <Menu.Item
          onClick={() => {
            void copy(view.manifest, "YAML");
          }}
        >
          Copy as ScheduledJob YAML
        </Menu.Item>
        <Menu.Item
          onClick={() => {
            void copy(curlOf(view.job, location.origin), "Command");
          }}
        >
          Copy as curl
        </Menu.Item>
        {view.managed_by === null && (
          <>
            <Menu.Divider />
            <Menu.Item
              c="var(--mantine-color-error)"
              onClick={() => {
                remove(true);
              }}
            >
              Delete …
            </Menu.Item>
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notifications.show({ color: "green.9", message: `${what} copied` });
  } catch {
    notifications.show({
      color: "red.9",
      message: "The browser did not allow it. Select the text on this page and copy it yourself.",
    });
  }
}
