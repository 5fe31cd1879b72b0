import { Button, Group, Select, Stack, Table, Text, TextInput } from "@mantine/core";
import { IconMailForward, IconSearch } from "@tabler/icons-react";
import { keepPreviousData } from "@tanstack/react-query";
import { Link } from "react-router";
import { get, search } from "../api.ts";
import type { LogEntry, LogsPage as LogsAnswer } from "../api-types.ts";
import { Empty } from "../components/empty.tsx";
import { Moment } from "../components/moment.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Pager } from "../components/pager.tsx";
import { Problem } from "../components/problem.tsx";
import { Status } from "../components/status.tsx";
import { TableCard } from "../components/table-card.tsx";
import { useFilters } from "../filters.ts";
import { useLoaded } from "../loaded.ts";
import { useSession } from "../session.ts";

const PAGE_SIZE = 25;
const KINDS: Record<string, string> = { email: "Email", otp: "Passcode", job: "Job" };

export function LogsPage() {
  const owner = useSession().user.role === "owner";
  const filters = useFilters("to");
  const { page, change, settled: to } = filters;
  const [status, kind] = [filters.of("status"), filters.of("kind")];
  const query = { status, kind, to, limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE };
  const logs = useLoaded({
    queryKey: ["logs", query],
    queryFn: () => get<LogsAnswer>(`/logs${search(query)}`),
    refetchInterval: 3_000,
    placeholderData: keepPreviousData,
  });
  const { data } = logs;
  const filtered = status !== null || kind !== null || to !== "";
  const none = data?.total === 0 && !filtered;
  // While the answer to other filters is shown, it is not known whether there is any email at all.
  const asking = logs.isPending || (none && logs.isPlaceholderData);
  return (
    <Page
      title="Email log"
      outdated={logs.isPlaceholderData}
      about="Every email that was handed to your SMTP server, newest first: sends, passcodes and email jobs. It follows along by itself."
    >
      {none && !asking ? (
        <Empty
          icon={<IconMailForward />}
          title="No email yet"
          action={
            owner && (
              <Button component={Link} to="/api-keys">
                Get an API key
              </Button>
            )
          }
        >
          {owner
            ? "Send a first one with POST /send; the page that shows a new API key has the command ready to paste."
            : "Send a first one with POST /send and an API key, which an owner creates."}{" "}
          What your SMTP server says to each email is kept here.
        </Empty>
      ) : (
        <Stack gap="sm">
          <Group gap="xs">
            <TextInput
              aria-label="Recipient"
              placeholder="Recipient address"
              maxLength={254}
              leftSection={<IconSearch size={16} />}
              flex={1}
              miw={{ base: "100%", xs: 200 }}
              value={filters.text}
              onChange={(event) => {
                filters.type(event.currentTarget.value);
              }}
            />
            <Select
              aria-label="Outcome"
              placeholder="Any outcome"
              clearable
              w={{ base: "calc(50% - 5px)", xs: 150 }}
              data={["sent", "failed"]}
              value={status}
              onChange={(value) => {
                change("status", value);
              }}
            />
            <Select
              aria-label="Kind"
              placeholder="Any kind"
              clearable
              w={{ base: "calc(50% - 5px)", xs: 150 }}
              data={Object.entries(KINDS).map(([value, label]) => ({ value, label }))}
              value={kind}
              onChange={(value) => {
                change("kind", value);
              }}
            />
          </Group>
          {asking && <Waiting rows={10} />}
          {logs.error && <Problem error={logs.error} retry={() => logs.refetch()} />}
          {data?.total === 0 && !asking && (
            <Text c="dimmed" py="xl" ta="center">
              No email matches. Change the filters; an address must be whole.
            </Text>
          )}
          {data && data.total > 0 && <LogTable logs={data.logs} />}
          {/* Also when nothing matches: a screen reader reads the number out. */}
          {data && !asking && (
            <Pager
              total={data.total}
              noun="email"
              page={page}
              pageSize={PAGE_SIZE}
              current={!logs.isPlaceholderData}
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

export function LogTable({ logs }: { logs: readonly LogEntry[] }) {
  return (
    <TableCard
      minWidth={640}
      columns={[
        { label: "Outcome", width: 105 },
        { label: "To", width: "32%" },
        { label: "Subject" },
        { label: "Kind", width: 110 },
        { label: "When", width: 150 },
      ]}
    >
      {logs.map((entry) => (
        <Table.Tr key={entry.id}>
          <Table.Td>
            <Status value={entry.status} />
          </Table.Td>
          <Table.Td className="break main">
            <Text size="sm">{entry.to}</Text>
          </Table.Td>
          <Table.Td className="wide">
            <Text size="sm" className="break" lineClamp={2}>
              <bdi>{entry.subject}</bdi>
            </Text>
            {entry.error_message !== null && (
              <Text size="xs" c="var(--mantine-color-error)" className="break" mt={2}>
                {entry.error_message}
              </Text>
            )}
          </Table.Td>
          <Table.Td>
            <Text size="sm">{KINDS[entry.kind] ?? entry.kind}</Text>
          </Table.Td>
          <Table.Td>
            <Text size="sm" component="div">
              <Moment at={entry.sent_at} />
            </Text>
          </Table.Td>
        </Table.Tr>
      ))}
    </TableCard>
  );
}
