import { Select, type SelectProps } from "@mantine/core";
import { timeZones } from "../time.ts";

/** Offers all zones that the browser knows, and the present one even if the browser does not. */
export function TimeZoneSelect({
  value,
  change,
  ...others
}: Pick<SelectProps, "description" | "error"> & {
  value: string;
  change: (zone: string) => void;
}) {
  return (
    <Select
      {...others}
      label="Time zone"
      data={timeZones(value)}
      searchable
      allowDeselect={false}
      value={value}
      onChange={(zone) => {
        if (zone !== null) change(zone);
      }}
    />
  );
}
