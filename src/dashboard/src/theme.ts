import {
  createTheme,
  Menu,
  NavLink,
  Notification,
  Portal,
  type CSSVariablesResolver,
  type ModalProps,
  type NumberInputProps,
  type PasswordInputProps,
  type SelectProps,
} from "@mantine/core";

/** Id of the element, inside the page's main landmark, that holds dialogs, menus and the like. */
export const OVERLAYS = "overlays";

export const theme = createTheme({
  primaryColor: "indigo",
  primaryShade: { light: 7, dark: 8 },
  defaultRadius: "md",
  fontFamily:
    'Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif',
  fontFamilyMonospace: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
  headings: { fontWeight: "650" },
  cursorType: "pointer",
  components: {
    NavLink: NavLink.extend({ styles: { root: { borderRadius: 8, fontWeight: 500 } } }),
    // At the end of the body, the library's default, dialogs would belong to no landmark, and their headers would be
    // banners.
    Portal: Portal.extend({ defaultProps: { target: `#${OVERLAYS}` } }),
    // The first item takes the focus, not the library's placeholder, which is no item.
    Menu: Menu.extend({ defaultProps: { withInitialFocusPlaceholder: false } }),
    Notification: Notification.extend({
      defaultProps: { closeButtonProps: { "aria-label": "Close the message" } },
    }),
    // After a double click on what opens a dialog, the second click falls beside the dialog, and must not close it.
    // Given by name, as Select is.
    Modal: {
      defaultProps: {
        overlayProps: {
          onClickCapture: (event) => {
            if (event.detail > 1) event.stopPropagation();
          },
        },
      } satisfies Partial<ModalProps>,
    },
    // A typed number is not corrected when the field loses the focus: the field's error would go away, and move the
    // button that is being pressed. Given by name, as Select is.
    NumberInput: {
      defaultProps: {
        clampBehavior: "none",
        trimLeadingZeroesOnBlur: false,
        // They are too small for a finger; the arrow keys do the same.
        hideControls: true,
      } satisfies Partial<NumberInputProps>,
    },
    // The password can be shown with the keyboard, too. Given by name, as Select is.
    PasswordInput: {
      defaultProps: { visibilityToggleFocusable: true } satisfies Partial<PasswordInputProps>,
    },
    // The list of options scrolls by itself, without a scroll area around it: it stays a direct part of the combobox
    // and needs no focus. Given by name: with `Select.extend` the first load would contain the component.
    Select: {
      defaultProps: {
        withScrollArea: false,
        styles: { options: { maxHeight: 240, overflowY: "auto" } },
      } satisfies Partial<SelectProps>,
    },
  },
  respectReducedMotion: true,
});

const LIGHT_VARIANTS = ["indigo", "green", "red", "orange", "gray", "blue"];

/**
 * Darker on light and lighter on dark than the library's colours, so that text has a contrast of 4.5 (WCAG 2.2,
 * 1.4.3).
 */
export const cssVariables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "#52585f",
    "--mantine-color-placeholder": "#6a7077",
    "--mantine-color-error": "#c02323",
    "--mantine-color-anchor": "#364fc7",
    "--mantine-color-body": "#ffffff",
    "--carillon-page": "#f6f7f9",
    ...Object.fromEntries(
      LIGHT_VARIANTS.map((color) => [
        `--mantine-color-${color}-light-color`,
        // Dark enough for the darker background under the mouse, too.
        `color-mix(in srgb, var(--mantine-color-${color}-9) 75%, black)`,
      ]),
    ),
  },
  dark: {
    "--mantine-color-dimmed": "#b3b8bf",
    "--mantine-color-placeholder": "#9a9fa6",
    "--mantine-color-error": "#ff8787",
    "--mantine-color-anchor": "#a5b4fc",
    "--mantine-color-body": "#1b1d21",
    "--carillon-page": "#141619",
    ...Object.fromEntries(
      LIGHT_VARIANTS.map((color) => [
        `--mantine-color-${color}-light-color`,
        `var(--mantine-color-${color}-2)`,
      ]),
    ),
  },
});
