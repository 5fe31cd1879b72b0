import { Group, Pagination, Text } from "@mantine/core";
import { useEffect } from "react";

/** How many entries a list has, and links to its other pages. */
export function Pager(props: {
  total: number;
  /** What an entry is called: `job`. */
  noun: string;
  page: number;
  pageSize: number;
  /** Whether `total` answers what the address asks for now, not what it asked for before. */
  current: boolean;
  /** `correcting`: the user did not choose it, and the Back button must not lead to the page that was corrected. */
  change: (page: number, correcting: boolean) => void;
}) {
  const { total, noun, page, pageSize, current, change } = props;
  const pages = Math.max(1, Math.ceil(total / pageSize));
  // All entries of the last page may be deleted while it is shown.
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
