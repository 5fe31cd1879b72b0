import { Badge } from "@mantine/core";

const COLORS: Record<string, string> = {
  active: "green",
  success: "green",
  sent: "green",
  paused: "gray",
  completed: "blue",
  failed: "red",
  invalid: "red",
  missed: "orange",
  open: "red",
  half_open: "orange",
};

/** A state, as a word in a colour. */
export function Status({ value }: { value: string }) {
  return (
    <Badge variant="light" color={COLORS[value] ?? "gray"} tt="none" fw={600}>
      {value.replaceAll("_", " ")}
    </Badge>
  );
}
