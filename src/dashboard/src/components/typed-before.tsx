import { Alert, Button, Group } from "@mantine/core";

/** Above a form that has been filled with what was typed into it before. */
export function TypedBefore(props: {
  /** What is not there, and whether it is one or many: `the password: it is`. */
  but: string;
  startAfresh: () => void;
}) {
  return (
    <Alert variant="light" role="status" mb="md">
      <Group justify="space-between">
        What you typed is here again, but for {props.but} not kept.
        <Button variant="default" size="xs" onClick={props.startAfresh}>
          Start afresh
        </Button>
      </Group>
    </Alert>
  );
}
