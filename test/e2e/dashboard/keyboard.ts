import type { Locator, Page } from "playwright-core";

/** More than the elements that any page has to tab through. */
const MOST_STOPS = 80;

/** A user without a mouse. `problems` lists where the focus could not be seen. */
export function keyboard(page: Page) {
  const problems: string[] = [];

  /** What has the focus, and why a person could not see that, if so. */
  async function focused(): Promise<{ name: string; problem: string | null }> {
    return (await page.evaluate(`(() => {
      const it = document.activeElement;
      if (!it || it === document.body) return { name: "nothing", problem: null };
      const name = (it.getAttribute("aria-label") || it.textContent || it.getAttribute("name") || it.tagName).trim().slice(0, 60);
      if (!it.matches(":focus-visible")) return { name, problem: "has the focus, but does not show it" };
      const box = it.getBoundingClientRect();
      if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth)
        return { name, problem: "has the focus outside of the window" };
      const x = Math.min(Math.max(box.left + box.width / 2, 1), innerWidth - 1);
      const y = Math.min(Math.max(box.top + Math.min(box.height / 2, 20), 1), innerHeight - 1);
      const top = document.elementFromPoint(x, y);
      const label = it.closest("label, [class*=root], [class*=Root]") || it;
      if (top && !it.contains(top) && !top.contains(it) && !label.contains(top))
        return { name, problem: "has the focus, but " + (top.className || top.tagName) + " covers it" };
      const marked = [it, it.nextElementSibling, it.closest("[data-size]")].some((each) => {
        if (!each) return false;
        const style = getComputedStyle(each);
        return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1) || each.matches("input, textarea, select");
      });
      return { name, problem: marked ? null : "has the focus, but no ring" };
    })()`)) as { name: string; problem: string | null };
  }

  const has = async (target: Locator) => (await target.and(page.locator(":focus")).count()) > 0;

  /** Presses `key` until the target has the focus. */
  async function tabTo(target: Locator, key: "Tab" | "Shift+Tab" = "Tab"): Promise<void> {
    await target.waitFor({ state: "attached" });
    const passed: string[] = [];
    for (let stop = 0; stop < MOST_STOPS; stop += 1) {
      if (await has(target)) return;
      await page.keyboard.press(key);
      const { name, problem } = await focused();
      passed.push(name);
      if (problem !== null) problems.push(`${await page.title()}: ${name} ${problem}`);
    }
    throw new Error(`the keyboard does not get there; it passes ${passed.join(" | ")}`);
  }

  return {
    problems,
    tabTo,
    has,
    focused,
    press: (key: string) => page.keyboard.press(key),
    type: (text: string) => page.keyboard.type(text),
    /** Tabs to the target and presses `key`. */
    async use(target: Locator, key: "Enter" | "Space" = "Enter"): Promise<void> {
      await tabTo(target);
      await page.keyboard.press(key);
    },
  };
}
