import { Group, Pagination, Text } from "@mantine/core";
import { useEffect } from "react";

/** How many there are, and the way to the others. */
export function Pager(props: {
  total: number;
  /** One of them: `job`. */
  noun: string;
  page: number;
  pageSize: number;
  /** Whether `total` is of what the address asks for, not of what was shown before that. */
  current: boolean;
  /** `correcting`: nobody chose it, so that the way back must not lead to what was corrected. */
  change: (page: number, correcting: boolean) => void;
}) {
  const { total, noun, page, pageSize, current, change } = props;
  const pages = Math.max(1, Math.ceil(total / pageSize));
  // The last ones of a page may be deleted while it is looked at.
  useEffect(() => {
    if (current && page > pages) change(pages, true);
  });
  return (
    <Group justify="space-between">
      <Text size="sm" c="dimmed" className="number" role="status">
        {total.toLocaleString("en")} {total === 1 ? noun : `${noun}s`}
      </Text>
      {pages > 1 && (
        <Pagination
          total={pages}
          value={Math.min(page, pages)}
          size="sm"
          getControlProps={(control) => ({ "aria-label": `${control} page` })}
          getItemProps={(item) => ({ "aria-label": `Page ${item}` })}
          onChange={(to) => {
            change(to, false);
          }}
        />
      )}
    </Group>
  );
}
