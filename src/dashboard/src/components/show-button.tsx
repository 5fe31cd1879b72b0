import { Button } from "@mantine/core";

/** Shows something that is masked, and masks it again. */
export function ShowButton(props: {
  /** What it shows, for screen readers. */
  of: string;
  shown: boolean;
  show: (shown: boolean) => void;
}) {
  const { of, shown, show } = props;
  const action = shown ? "Hide" : "Show";
  return (
    <Button
      size="xs"
      variant="default"
      aria-label={`${action} ${of}`}
      onClick={() => {
        show(!shown);
      }}
    >
      {action}
    </Button>
  );
}
