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

/** The element in the page's main landmark that what opens over the page is put into. */
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
    // At the end of the body they would belong to no landmark, and their headers would be banners.
    Portal: Portal.extend({ defaultProps: { target: `#${OVERLAYS}` } }),
    // The placeholder that would take the first focus is no item of a menu: the first item takes it.
    Menu: Menu.extend({ defaultProps: { withInitialFocusPlaceholder: false } }),
    Notification: Notification.extend({
      defaultProps: { closeButtonProps: { "aria-label": "Close the message" } },
    }),
    // The second click of a double one, of which the first has opened it, is not one beside it. By its name, as Select.
    Modal: {
      defaultProps: {
        overlayProps: {
          onClickCapture: (event) => {
            if (event.detail > 1) event.stopPropagation();
          },
        },
      } satisfies Partial<ModalProps>,
    },
    // What is typed stays until somebody types something else: a number that corrected itself when it lost the focus
    // would take away what is said of it, and move the button that is being pressed. By its name, as Select.
    NumberInput: {
      defaultProps: {
        clampBehavior: "none",
        trimLeadingZeroesOnBlur: false,
        // A finger does not hit the one that is meant; the arrow keys do the same.
        hideControls: true,
      } satisfies Partial<NumberInputProps>,
    },
    // What a mouse can show, the keyboard can. By its name, as Select.
    PasswordInput: {
      defaultProps: { visibilityToggleFocusable: true } satisfies Partial<PasswordInputProps>,
    },
    // The list of options scrolls itself, so that it is the combobox's own and needs no focus.
    // By its name: the first load does without the component.
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

/** Darker on light and lighter on dark than the library's own: text keeps a contrast of 4.5 (WCAG 2.2, 1.4.3). */
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
        // Also on the darker ground below a mouse.
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
