import { Card } from "@mantine/core";
import type { ComponentProps } from "react";
import { DataTable } from "./data-table.tsx";

/** A table as a card. */
export function TableCard(props: ComponentProps<typeof DataTable>) {
  return (
    <Card withBorder p={0} className="panel">
      <DataTable {...props} />
    </Card>
  );
}
