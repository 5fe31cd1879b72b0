import { Button, Table } from "@mantine/core";
import type { ReactNode } from "react";

/** The column of actions, if there are any. Its heading is empty, and not read out. */
export function actionColumn(shown: boolean, width = 130) {
  return shown ? [{ label: "", width, hidden: true }] : [];
}

/**
 * The last cell of a row: a button for what can be done with it. `of` is read out instead of its word, which is the
 * same in each row.
 */
export function RowAction(props: {
  children: string;
  of: string;
  icon?: ReactNode;
  danger?: boolean;
  run: () => void;
}) {
  return (
    <Table.Td ta="right">
      <Button
        size="xs"
        variant="subtle"
        {...(props.danger === true ? { color: "red" } : {})}
        leftSection={props.icon}
        aria-label={props.of}
        onClick={props.run}
      >
        {props.children}
      </Button>
    </Table.Td>
  );
}
