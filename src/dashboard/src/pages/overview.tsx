import {
  Anchor,
  Card,
  Group,
  List,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Text,
  ThemeIcon,
  Title,
} from "@mantine/core";
import { IconCheck, IconCircleDashed } from "@tabler/icons-react";
import { keepPreviousData } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link } from "react-router";
import { get } from "../api.ts";
import type { Activity, Overview } from "../api-types.ts";
import { BarChart, type Bar } from "../components/bar-chart.tsx";
import { Moment } from "../components/moment.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { Status } from "../components/status.tsx";
import { useLoaded } from "../loaded.ts";
import { useSession } from "../session.ts";
import { utcDay } from "../time.ts";
import { successRate } from "./success-rate.ts";

type Range = "24h" | "7d" | "30d";

export function OverviewPage() {
  const { account } = useSession();
  const [range, setRange] = useState<Range>("24h");
  const overview = useLoaded({
    queryKey: ["overview", range],
    // The answer contains its range: after another one is chosen, this answer is shown until the next one comes, and
    // must not be taken for it.
    queryFn: async () => ({ range, ...(await get<Overview>(`/overview?range=${range}`)) }),
    refetchInterval: 5_000,
    placeholderData: keepPreviousData,
  });
  const { data } = overview;
  return (
    <Page
      title="Overview"
      outdated={overview.isPlaceholderData}
      about={
        <>
          What the account <strong>{account.name}</strong> sent and ran.
        </>
      }
      actions={
        <SegmentedControl
          aria-label="Time range"
          value={range}
          onChange={(value) => {
            setRange(value);
          }}
          data={[
            { value: "24h", label: "24 hours" },
            { value: "7d", label: "7 days" },
            { value: "30d", label: "30 days" },
          ]}
        />
      }
    >
      {overview.isPending && <Waiting rows={8} />}
      {overview.error && <Problem error={overview.error} retry={() => overview.refetch()} />}
      {data && (
        <>
          <FirstSteps steps={data.first_steps} />
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            <ActivityCard
              title="Emails"
              bars={barsOf(data.activity, data.range, "mail_sent", "mail_failed")}
              good="sent"
              bad="failed"
            />
            <ActivityCard
              title="Job runs"
              bars={barsOf(data.activity, data.range, "runs_succeeded", "runs_failed")}
              good="succeeded"
              bad="failed"
            />
          </SimpleGrid>
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            <NextRuns data={data} />
            <Trouble data={data} />
          </SimpleGrid>
        </>
      )}
    </Page>
  );
}

const localHour = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  hour: "2-digit",
  minute: "2-digit",
});

function barsOf(
  activity: readonly Activity[],
  range: Range,
  good: "mail_sent" | "runs_succeeded",
  bad: "mail_failed" | "runs_failed",
): Bar[] {
  // An hour of UTC is one of the local clock, too, except in zones whose offset is not whole. A day is not.
  const format = range === "24h" ? localHour : utcDay;
  return activity.map((bucket) => ({
    label: format.format(new Date(bucket.at)),
    good: bucket[good],
    bad: bucket[bad],
  }));
}

function ActivityCard(props: { title: string; bars: Bar[]; good: string; bad: string }) {
  const good = props.bars.reduce((sum, bar) => sum + bar.good, 0);
  const bad = props.bars.reduce((sum, bar) => sum + bar.bad, 0);
  return (
    <Card withBorder className="panel">
      <Group justify="space-between" align="flex-start" mb="sm">
        <Stack gap={2}>
          <Title order={2} size="h5">
            {props.title}
          </Title>
          <Group gap="md">
            <Legend kind="good" text={`${good.toLocaleString("en")} ${props.good}`} />
            <Legend kind="bad" text={`${bad.toLocaleString("en")} ${props.bad}`} />
          </Group>
        </Stack>
        <Stack gap={0} align="flex-end">
          <Text size="xl" fw={700} className="number">
            {successRate(good, bad)}
          </Text>
          <Text size="xs" c="dimmed">
            success
          </Text>
        </Stack>
      </Group>
      <BarChart bars={props.bars} name={props.title} good={props.good} bad={props.bad} />
    </Card>
  );
}

function Legend({ kind, text }: { kind: "good" | "bad"; text: string }) {
  return (
    <Group gap={6} wrap="nowrap">
      <span className={`swatch ${kind}`} aria-hidden />
      <Text size="sm" className="number">
        {text}
      </Text>
    </Group>
  );
}

function NextRuns({ data }: { data: Overview }) {
  const counts = Object.entries(data.jobs);
  return (
    <Card withBorder className="panel">
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h5">
          Next runs
        </Title>
        <Group gap="xs">
          {counts.map(([status, count]) => (
            <Group key={status} gap={4}>
              <Status value={status} />
              <Text size="sm" className="number">
                {count}
              </Text>
            </Group>
          ))}
        </Group>
      </Group>
      {data.next_runs.length === 0 ? (
        <Text size="sm" c="dimmed">
          No job is due. <ToPage to="/jobs/_new">Create one</ToPage>: a webhook or an email, on a
          schedule or once.
        </Text>
      ) : (
        <Stack gap="xs">
          {data.next_runs.map(({ id, name, at }) => (
            <Group key={id} justify="space-between" wrap="nowrap">
              <Link className="row-link clip" dir="auto" to={`/jobs/${id}`}>
                {name}
              </Link>
              <Text size="sm" c="dimmed" component="div">
                <Moment at={at} />
              </Text>
            </Group>
          ))}
        </Stack>
      )}
    </Card>
  );
}

function Trouble({ data }: { data: Overview }) {
  const { failing, circuits } = data;
  const quiet = failing.total === 0 && circuits.length === 0;
  return (
    <Card withBorder className="panel">
      <Title order={2} size="h5" mb="sm">
        Needs attention
      </Title>
      {quiet && (
        <Text size="sm" c="dimmed">
          Nothing: of the jobs that are not paused, no last run failed and no one-time run is
          missing. No circuit is open.
        </Text>
      )}
      <Stack gap="sm">
        {circuits.map(({ destination, state, since }) => (
          <Stack key={destination + since} gap={2}>
            <Group justify="space-between" wrap="nowrap">
              <Text size="sm" fw={550} className="break">
                {destination}
              </Text>
              <Status value={state} />
            </Group>
            <Text size="xs" c="dimmed" component="div">
              Calls wait until it answers again. Last change: <Moment at={since} />.
            </Text>
          </Stack>
        ))}
        {failing.jobs.map(({ id, name, missed, error_message: error, at }) => (
          <Stack key={id} gap={2}>
            <Group justify="space-between" wrap="nowrap">
              <Link className="row-link clip" dir="auto" to={`/jobs/${id}`}>
                {name}
              </Link>
              <Text size="sm" c="dimmed" component="div">
                <Moment at={at} none="" />
              </Text>
            </Group>
            <Text size="xs" c="dimmed" lineClamp={2} className="break">
              {missed ? "Its time was missed, and it has not run since." : error}
            </Text>
          </Stack>
        ))}
        {failing.total > failing.jobs.length && (
          <ToPage to="/jobs?status=failing">All {failing.total} failing jobs</ToPage>
        )}
      </Stack>
    </Card>
  );
}

interface Step {
  done: boolean;
  text: string;
  to: string;
  /** Members may not do it. */
  owners?: true;
}

function FirstSteps({ steps }: { steps: Overview["first_steps"] }) {
  const { role } = useSession().user;
  const all: Step[] = [
    { done: steps.smtp, text: "Enter the SMTP server to send through", to: "/smtp", owners: true },
    {
      done: steps.api_key_used,
      text: "Create an API key and use it",
      to: "/api-keys",
      owners: true,
    },
    { done: steps.mail_sent, text: "Send a first email", to: "/logs" },
    { done: steps.job_created, text: "Create a scheduled job", to: "/jobs/_new" },
  ];
  const left = all.filter(({ done }) => !done).length;
  if (left === 0) return null;
  return (
    <Card withBorder className="panel">
      <Title order={2} size="h5" mb="sm">
        First steps · {all.length - left} of {all.length} done
      </Title>
      <List spacing={6} listStyleType="none" center withPadding={false}>
        {all.map(({ done, text, to, owners }) => (
          <List.Item
            key={to}
            icon={
              <ThemeIcon
                size={22}
                radius="xl"
                variant={done ? "filled" : "default"}
                color="green.9"
                aria-hidden
              >
                {done ? <IconCheck size={14} /> : <IconCircleDashed size={14} />}
              </ThemeIcon>
            }
          >
            {done ? (
              <Text size="sm" c="dimmed" td="line-through" aria-label={`${text}: done`}>
                {text}
              </Text>
            ) : owners && role !== "owner" ? (
              <Text size="sm">{text} (an owner does this)</Text>
            ) : (
              <ToPage to={to}>{text}</ToPage>
            )}
          </List.Item>
        ))}
      </List>
    </Card>
  );
}

function ToPage({ to, children }: { to: string; children: ReactNode }) {
  return (
    <Anchor component={Link} to={to} size="sm" underline="always">
      {children}
    </Anchor>
  );
}
