import { Group } from "@mantine/core";
import type { ReactNode } from "react";
import { BusyButton } from "./busy-button.tsx";
import { Problem } from "./problem.tsx";

/** The end of a form, in its `Stack`: why it could not be saved, and the button. */
export function Submit({
  by,
  labels,
  children,
}: {
  /** The mutation that the form starts. */
  by: { error: Error | null; isPending: boolean };
  /** See `Problem`. */
  labels?: Readonly<Record<string, string>>;
  children: ReactNode;
}) {
  return (
    <>
      {by.error && <Problem error={by.error} labels={labels} />}
      <Group justify="flex-end">
        <BusyButton type="submit" busy={by.isPending}>
          {children}
        </BusyButton>
      </Group>
    </>
  );
}
