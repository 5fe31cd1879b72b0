import { Table } from "@mantine/core";
import type { ReactNode } from "react";

/**
 * A table that becomes a list of cards on a phone (styles.css). The rows are its children. On a card, a cell of the
 * class `main` shares the first line with the cells before and after it.
 */
export function DataTable(props: {
  columns: readonly {
    label: ReactNode;
    width?: number | string;
    hidden?: boolean;
    /** Its heading is shown on a phone, too. */
    always?: boolean;
  }[];
  minWidth: number;
  children: ReactNode;
}) {
  return (
    <div className="table-scroll">
      <Table
        verticalSpacing="sm"
        horizontalSpacing="md"
        layout="fixed"
        className="cards"
        style={{ "--table-min-width": `${props.minWidth}px` }}
      >
        <Table.Thead>
          <Table.Tr>
            {props.columns.map(({ label, width, hidden, always }, index) =>
              hidden === true ? (
                <Table.Td key={index} {...(width === undefined ? {} : { w: width })} />
              ) : (
                <Table.Th
                  key={index}
                  {...(width === undefined ? {} : { w: width })}
                  {...(always === true ? { className: "always" } : {})}
                >
                  {label}
                </Table.Th>
              ),
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{props.children}</Table.Tbody>
      </Table>
    </div>
  );
}
