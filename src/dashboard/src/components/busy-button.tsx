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
        // Of a form: Enter in one of its fields comes here, too. The second click of a double one would do it once
        // more: what the first has begun may be over by then, and Pause be Resume.
        if (busy || event.detail > 1) event.preventDefault();
        else if ("onClick" in others) others.onClick();
      }}
    />
  );
}
