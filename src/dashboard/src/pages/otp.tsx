import { Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconPassword } from "@tabler/icons-react";
import { get } from "../api.ts";
import type { LogEntry, OtpDay } from "../api-types.ts";
import { BarChart } from "../components/bar-chart.tsx";
import { Empty } from "../components/empty.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { useLoaded } from "../loaded.ts";
import { utcDay } from "../time.ts";
import { LogTable } from "./logs.tsx";

const DAYS = 30;

export function OtpPage() {
  const otp = useLoaded({
    queryKey: ["otp"],
    queryFn: () => get<{ days: OtpDay[]; recent: LogEntry[] }>(`/otp?days=${DAYS}`),
    refetchInterval: 5_000,
  });
  const { data } = otp;
  const sum = (of: keyof Omit<OtpDay, "day">) =>
    data?.days.reduce((total, day) => total + day[of], 0) ?? 0;
  const any = sum("sent") + sum("send_failed") > 0;
  return (
    <Page
      title="Passcodes"
      about="One-time passcodes of the last 30 days: how many were mailed, and how they ended. The codes themselves are kept nowhere."
    >
      {otp.isPending && <Waiting />}
      {otp.error && <Problem error={otp.error} retry={() => otp.refetch()} />}
      {data && !any && (
        <Empty icon={<IconPassword />} title="No passcodes yet">
          POST /send/otp mails a 6-digit code that is valid for ten minutes; POST /verify/otp checks
          what the person typed. Five wrong tries burn a code.
        </Empty>
      )}
      {data && any && (
        <Stack>
          <SimpleGrid cols={{ base: 2, sm: 5 }}>
            <Figure value={sum("sent")} label="mailed" />
            <Figure value={sum("verified")} label="verified" />
            <Figure value={sum("refused")} label="wrong codes" />
            <Figure value={sum("burnt")} label="ended by wrong codes" />
            <Figure value={sum("send_failed")} label="mails failed" />
          </SimpleGrid>
          <Card withBorder className="panel">
            <Group justify="space-between" mb="sm">
              <Title order={2} size="h5">
                Verified and wrong codes by day
              </Title>
            </Group>
            <BarChart
              name="Passcodes"
              good="verified"
              bad="wrong"
              bars={data.days.map(({ day, verified, refused }) => ({
                label: utcDay.format(new Date(day)),
                good: verified,
                bad: refused,
              }))}
            />
          </Card>
          <Title order={2} size="h5">
            Newest passcode mails
          </Title>
          <LogTable logs={data.recent} />
        </Stack>
      )}
    </Page>
  );
}

function Figure({ value, label }: { value: number; label: string }) {
  return (
    <Card withBorder className="panel">
      <Text size="xl" fw={700} className="number">
        {value.toLocaleString("en")}
      </Text>
      <Text size="sm" c="dimmed">
        {label}
      </Text>
    </Card>
  );
}
