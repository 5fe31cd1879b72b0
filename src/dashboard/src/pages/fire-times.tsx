import { Badge, Group, Stack, Table, Text, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { formatOffset, formatTime, MY_ZONE, utcOffset } from "../time.ts";
import { cronWords } from "./cron-words.ts";

/** The schedule in words, and its next fire times in its own zone and in the reader's. */
export function FireTimes(props: {
  expression: string | null;
  zone: string;
  times: readonly string[];
  /** Why there are none; null: that is not known yet. */
  none: string | null;
}) {
  const { expression, zone, times, none } = props;
  const words = useQuery({
    queryKey: ["cron-words", expression],
    queryFn: () => cronWords(expression ?? ""),
    enabled: expression !== null,
    staleTime: Infinity,
  });
  const showsReadersZone = zone !== MY_ZONE;
  const [first] = times;
  return (
    <Stack gap="xs" mih={120}>
      {/* A screen reader would read out the whole table with each change. */}
      <div aria-live="polite">
        {expression !== null && (
          <Text fw={550} className="break">
            {first === undefined ? "" : (words.data ?? "")}
          </Text>
        )}
        {first === undefined ? (
          <Text size="sm" c="dimmed">
            {none}
          </Text>
        ) : (
          <VisuallyHidden>Next: {formatTime(first, zone, false)}</VisuallyHidden>
        )}
      </div>
      {first !== undefined && (
        <Table verticalSpacing={4} horizontalSpacing={6} fz="xs" className="break">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{zone}</Table.Th>
              {showsReadersZone && <Table.Th>{MY_ZONE} (you)</Table.Th>}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {times.map((at, index) => (
              <Table.Tr key={at}>
                <Table.Td className="number">
                  {formatTime(at, zone, false)}
                  <Shift at={at} before={times[index - 1]} zone={zone} />
                </Table.Td>
                {showsReadersZone && (
                  <Table.Td className="number">
                    {formatTime(at, MY_ZONE, false)}
                    <Shift at={at} before={times[index - 1]} zone={MY_ZONE} />
                  </Table.Td>
                )}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Stack>
  );
}

/** Says that the zone's clocks change between the previous fire time and this one. */
function Shift({ at, before, zone }: { at: string; before: string | undefined; zone: string }) {
  if (before === undefined) return null;
  const from = utcOffset(before, zone);
  const to = utcOffset(at, zone);
  if (from === to) return null;
  return (
    <Group mt={2}>
      <Badge size="xs" variant="light" color="orange" tt="none">
        clocks go {to > from ? "forward" : "back"}: {formatOffset(to)}
      </Badge>
    </Group>
  );
}
