import { Alert, Button, Group } from "@mantine/core";

/** Shown above a form that has been filled with what was typed into it earlier. */
export function TypedBefore(props: {
  /** What was not kept, with its verb: `the password: it is`. Absent: nothing is missing. */
  but?: string;
  startAfresh: () => void;
}) {
  return (
    <Alert variant="light" role="status" mb="md">
      <Group justify="space-between">
        What you typed is here again
        {props.but === undefined ? "." : `, but for ${props.but} not kept.`}
        <Button variant="default" size="xs" onClick={props.startAfresh}>
          Start afresh
        </Button>
      </Group>
    </Alert>
  );
}
