import { Button, Loader, type ButtonProps } from "@mantine/core";
import type { Ref } from "react";

/**
 * A button whose work takes a moment. Meanwhile it ignores clicks, but is not disabled, as the library's `loading`
 * makes it: it would lose the focus, and somebody with a keyboard would have to find the place again.
 */
export function BusyButton(
  props: ButtonProps & { busy: boolean; ref?: Ref<HTMLButtonElement> } & (
      { onClick: () => void } | { type: "submit" }
    ),
) {
  const { busy, leftSection, ...others } = props;
  return (
    <Button
      {...others}
      aria-disabled={busy}
      leftSection={busy ? <Loader size={14} color="currentColor" aria-hidden /> : leftSection}
      onClick={(event) => {
        // A form's submit button is also clicked by Enter in a field. The second click of a double click is ignored:
        // what the first began may be over by then, and the button that said Pause may say Resume.
        if (busy || event.detail > 1) event.preventDefault();
        else if ("onClick" in others) others.onClick();
      }}
    />
  );
}
