import { Alert, Anchor } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { call, idempotentPost } from "../api.ts";
import type { Job } from "../api-types.ts";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { useLoaded } from "../loaded.ts";
import { useSession } from "../session.ts";
import { JobForm } from "./job-form.tsx";
import { copyOf, draftOf, emptyDraft } from "./job-draft.ts";
import { jobQuery } from "./job-query.ts";

/** `?from=ID` starts with a copy of another job. */
export function NewJobPage() {
  const zone = useSession().account.time_zone;
  const [params] = useSearchParams();
  const from = params.get("from");
  const client = useQueryClient();
  const source = useLoaded({
    ...jobQuery(from ?? ""),
    enabled: from !== null,
    refetchOnWindowFocus: false,
  });
  const [create] = useState(() => idempotentPost<Job>("/jobs"));
  const ready = from === null || source.data !== undefined;
  const left = source.data?.secret_headers ?? [];
  return (
    <Page
      title="Create a job"
      above={
        <Anchor component={Link} to="/jobs" size="sm">
          ← Jobs
        </Anchor>
      }
    >
      {source.error && <Problem error={source.error} retry={() => source.refetch()} />}
      {!ready && !source.error && <Waiting rows={8} />}
      {left.length > 0 && (
        <Alert color="orange" mb="md">
          The copy will not have headers whose values come from Secrets: {left.join(", ")}. Only
          kubectl can set them; the job’s YAML has them.
        </Alert>
      )}
      {ready && (
        <JobForm
          key={from}
          start={source.data ? copyOf(source.data.job, zone) : emptyDraft(zone)}
          action="Create job"
          save={async (body) => {
            const job = await create(body);
            await client.invalidateQueries({ queryKey: ["jobs"] });
            notifications.show({ color: "green.9", message: "Job created" });
            return job.id;
          }}
        />
      )}
    </Page>
  );
}

export function EditJobPage() {
  const { id = "" } = useParams();
  const zone = useSession().account.time_zone;
  const client = useQueryClient();
  const view = useLoaded({ ...jobQuery(id), refetchOnWindowFocus: false });
  const owner = view.data?.managed_by;
  return (
    <Page
      title={view.data ? `Edit ${view.data.job.name}` : "Edit job"}
      above={
        <Anchor component={Link} to={`/jobs/${id}`} size="sm">
          ← Back to the job
        </Anchor>
      }
    >
      {view.isPending && <Waiting rows={8} />}
      {view.error && <Problem error={view.error} retry={() => view.refetch()} />}
      {owner && (
        <Alert color="orange">
          {owner.tool} manages this job ({owner.name}): change it there. A change made here would be
          undone.
        </Alert>
      )}
      {view.data && !owner && (
        <JobForm
          key={id}
          start={draftOf(view.data.job, zone)}
          id={id}
          now={async () => draftOf((await jobQuery(id).queryFn()).job, zone)}
          action="Save"
          save={async (body) => {
            if (Object.keys(body).length === 0) {
              notifications.show({ color: "gray", message: "Nothing was changed" });
              return id;
            }
            await call("PATCH", `/jobs/${encodeURIComponent(id)}`, body);
            await client.invalidateQueries({ queryKey: ["job", id] });
            await client.invalidateQueries({ queryKey: ["jobs"] });
            notifications.show({ color: "green.9", message: "Job saved" });
            return id;
          }}
        />
      )}
    </Page>
  );
}
