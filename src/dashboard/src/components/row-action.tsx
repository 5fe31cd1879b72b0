import { Button, Table } from "@mantine/core";
import type { ReactNode } from "react";

/** The heading of a column of actions, where there are any: none that is read out. */
export function actionColumn(shown: boolean, width = 130) {
  return shown ? [{ label: "", width, hidden: true }] : [];
}

/** What can be done with a row, in its last cell. `of` is read out with it: each row has the same word. */
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
