import {
  Button,
  Card,
  Group,
  Pagination,
  Select,
  Stack,
  Table,
  Text,
  TextInput,
} from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconMailForward, IconSearch } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { get, search } from "../api.ts";
import type { LogEntry, LogsPage as LogsAnswer } from "../api-types.ts";
import { Empty } from "../components/empty.tsx";
import { DataTable } from "../components/data-table.tsx";
import { Moment } from "../components/moment.tsx";
import { Page, Waiting } from "../components/page.tsx";
import { Problem } from "../components/problem.tsx";
import { Status } from "../components/status.tsx";

const PAGE_SIZE = 25;
const KINDS: Record<string, string> = { email: "Email", otp: "Passcode", job: "Job" };

export function LogsPage() {
  const [params, setParams] = useSearchParams();
  const status = params.get("status");
  const kind = params.get("kind");
  const page = Math.max(1, Number(params.get("page") ?? "1") || 1);
  const [text, setText] = useState(params.get("to") ?? "");
  const [to] = useDebouncedValue(text.trim(), 250);
  const query = { status, kind, to, limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE };
  const logs = useQuery({
    queryKey: ["logs", query],
    queryFn: () => get<LogsAnswer>(`/logs${search(query)}`),
    refetchInterval: 3_000,
    placeholderData: keepPreviousData,
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
  const { data } = logs;
  const filtered = status !== null || kind !== null || to !== "";
  const pages = Math.max(1, Math.ceil((data?.total ?? 0) / PAGE_SIZE));
  return (
    <Page
      title="Email log"
      about="Every email that was handed to your SMTP server, newest first: sends, passcodes and email jobs. It follows along by itself."
    >
      {data?.total === 0 && !filtered ? (
        <Empty
          icon={<IconMailForward />}
          title="No email yet"
          action={
            <Button component={Link} to="/api-keys">
              Get an API key
            </Button>
          }
        >
          Send a first one with POST /send; the page that shows a new API key has the command ready
          to paste. What your SMTP server says to each email is kept here.
        </Empty>
      ) : (
        <Stack gap="sm">
          <Group gap="xs">
            <TextInput
              aria-label="Recipient"
              placeholder="Recipient address"
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
              aria-label="Outcome"
              placeholder="Any outcome"
              clearable
              w={150}
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
              w={150}
              data={Object.entries(KINDS).map(([value, label]) => ({ value, label }))}
              value={kind}
              onChange={(value) => {
                change("kind", value);
              }}
            />
          </Group>
          {logs.isPending && <Waiting rows={10} />}
          {logs.error && <Problem error={logs.error} retry={() => void logs.refetch()} />}
          {data?.total === 0 && (
            <Text c="dimmed" py="xl" ta="center">
              No email matches. Change the filters; an address must be whole.
            </Text>
          )}
          {data && data.total > 0 && (
            <>
              <LogTable logs={data.logs} />
              <Group justify="space-between">
                <Text size="sm" c="dimmed" className="number">
                  {data.total.toLocaleString("en")} {data.total === 1 ? "email" : "emails"}
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

export function LogTable({ logs }: { logs: readonly LogEntry[] }) {
  return (
    <Card withBorder p={0} className="panel">
      <DataTable
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
                {entry.subject}
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
      </DataTable>
    </Card>
  );
}
