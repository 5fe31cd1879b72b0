import { Button, Loader, type ButtonProps } from "@mantine/core";

/**
 * A button whose work takes a moment. It is not disabled meanwhile, as a loading one would be: the focus
 * would fall from it, and somebody with a keyboard would have to look for the place again.
 */
export function BusyButton(
  props: ButtonProps & { busy: boolean } & ({ onClick: () => void } | { type: "submit" }),
) {
  const { busy, leftSection, ...others } = props;
  return (
    <Button
      {...others}
      aria-disabled={busy}
      leftSection={busy ? <Loader size={14} color="currentColor" aria-hidden /> : leftSection}
      onClick={(event) => {
        // Of a form: Enter in one of its fields comes here, too.
        if (busy) event.preventDefault();
        else if ("onClick" in others) others.onClick();
      }}
    />
  );
}
