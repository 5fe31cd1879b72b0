import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CALLBACK_PATH } from "../../../src/oidc/openid-provider.ts";
import { freePort } from "../../network/free-port.ts";
import { CLIENT, startOpenIdProvider, type OpenIdProvider } from "../../oidc/provider.ts";
import { run, type Standalone } from "../program.ts";
import { violations } from "./axe.ts";
import { findChrome } from "./chrome.ts";
import { copied } from "./locators.ts";
import { openWindow, PHONE, show, signIn, type Owner } from "./owner.ts";
import { openStage, type Stage } from "./stage.ts";

const chrome = findChrome();

describe.skipIf(chrome === undefined)("users and how they sign in", () => {
  let stage: Stage;
  let program: Standalone;
  let provider: OpenIdProvider;
  let browser: Browser;
  let owner: Owner;
  beforeAll(async () => {
    const port = await freePort();
    const publicUrl = `http://127.0.0.1:${port}`;
    // For the browser it is another site, as real providers are, so that SameSite takes effect.
    provider = await startOpenIdProvider({
      hostname: "localhost",
      redirectUri: publicUrl + CALLBACK_PATH,
      addressIn: "id token",
    });
    stage = await openStage({
      name: "single-sign-on",
      chrome,
      env: {
        PORT: String(port),
        CARILLON_PUBLIC_URL: publicUrl,
        CARILLON_OIDC_ISSUER: provider.issuer,
        CARILLON_OIDC_CLIENT_ID: CLIENT.id,
        CARILLON_OIDC_CLIENT_SECRET: CLIENT.secret,
        CARILLON_OIDC_NAME: "Example ID",
      },
    });
    ({ program, owner, browser } = stage);
  });
  afterAll(async () => {
    await stage?.close();
    await provider?.close();
  });

  /** From the sign-in page, through the provider's own pages, and back. */
  async function throughProvider(
    page: Page,
    login: string,
    button = "Sign in with Example ID",
  ): Promise<void> {
    await page.getByRole("button", { name: button }).click();
    await page.waitForURL(`${provider.issuer}/**`);
    await page.locator("input[name=login]").fill(login);
    await page.locator("input[name=password]").fill("any");
    await page.getByRole("button", { name: "Sign-in" }).click();
    await page.getByRole("button", { name: "Continue" }).click();
    await page.waitForURL(`${program.url}/**`);
  }

  test("while the provider is away the page says so, and takes the password", async () => {
    await provider.close();
    const { context, page } = await openWindow(browser, program.url);
    await page.goto("/dashboard/");
    await page.getByRole("button", { name: "Sign in with Example ID" }).click();
    await page.getByRole("alert").getByText("Example ID does not answer").waitFor();
    expect(await violations(page)).toEqual([]);
    // This request changes nothing, so its error does not ask the user to look.
    await page.route("**/dashboard/api/single-sign-on", (route) => route.abort());
    await page.getByRole("button", { name: "Sign in with Example ID" }).click();
    await expect
      .poll(() => page.getByRole("alert").textContent())
      .toBe("Carillon cannot be reached. Is it running?");
    await signIn(page, owner);
    await context.close();
    await provider.open();
  });

  test("through the provider: in, still in after a reload, and out again", async () => {
    provider.people.set("the owner", { email: owner.email, email_verified: true });
    const { context, page, complaints } = await openWindow(browser, program.url);
    await page.goto("/dashboard/");
    await throughProvider(page, "the owner");
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    const cookies = await context.cookies(program.url);
    expect(cookies.map(({ name, sameSite }) => [name, sameSite])).toEqual([
      ["carillon_session", "Strict"],
    ]);
    await page.getByRole("button", { name: /your user$/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in with Example ID" }).waitFor();
    await page.reload();
    await page.getByRole("button", { name: "Sign in with Example ID" }).waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("somebody whom nobody invited hears what to do, once", async () => {
    provider.people.set("a stranger", { email: "stranger@example.com", email_verified: true });
    const { context, page, complaints } = await openWindow(browser, program.url, { view: PHONE });
    await page.goto("/dashboard/");
    await throughProvider(page, "a stranger");
    const advice = page.getByText("Ask an owner of your account for an invitation.");
    await advice.waitFor();
    expect(await violations(page)).toEqual([]);
    expect(new URL(page.url()).hash).toBe("");
    await page.reload();
    await page.getByRole("button", { name: "Sign in with Example ID" }).waitFor();
    expect(await advice.count()).toBe(0);
    // A link cannot make the page show other words.
    await page.goto("/dashboard/#sign-in=constructor");
    await page.reload();
    await page.getByRole("button", { name: "Sign in with Example ID" }).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("the invited accept through the provider, and may choose a password then", async () => {
    const inviting = await openWindow(browser, program.url);
    await signIn(inviting.page, owner);
    await inviting.page.goto("/dashboard/settings");
    await inviting.page.getByRole("button", { name: "Invite" }).click();
    await inviting.page
      .getByRole("textbox", { name: "Email", exact: true })
      .fill("invited@example.com");
    await inviting.page
      .getByRole("dialog")
      .getByRole("button", { name: "Invite", exact: true })
      .click();
    const link = await copied(inviting.page, "Copy the link");
    await inviting.context.close();

    provider.people.set("the invited", { email: "invited@example.com", email_verified: true });
    const { context, page, complaints } = await openWindow(browser, program.url);
    await page.goto(link);
    await page.getByRole("button", { name: "Accept with Example ID" }).waitFor();
    expect(await violations(page)).toEqual([]);
    await throughProvider(page, "the invited", "Accept with Example ID");
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.goto("/dashboard/settings");
    await page.getByLabel("New password").fill("a very good password");
    await page.getByRole("button", { name: "Choose a password" }).click();
    await page.getByText("Password changed.").waitFor();
    await page.getByLabel("Current password").waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("a role changes in place, and counts in a session that is open", async () => {
    const other = { email: "second@example.com", password: "a very good password" };
    const created = await run("cli", {
      args: [
        "admin",
        "user",
        "create",
        "--account",
        "default",
        "--email",
        other.email,
        "--password-stdin",
      ],
      env: { CARILLON_DATA_DIR: stage.data },
      input: other.password,
    }).finished;
    expect(created.stderr).toBe("");
    const theirs = await openWindow(browser, program.url);
    await signIn(theirs.page, other);
    await theirs.page.goto("/dashboard/api-keys");
    await theirs.page.getByRole("button", { name: "Create API key" }).click();
    await theirs.page.getByLabel("Label").fill("no longer allowed");
    await theirs.page.getByRole("link", { name: "SMTP" }).waitFor();
    const settings = await theirs.context.newPage();
    await settings.goto("/dashboard/settings");
    await settings.getByText("At most 90").waitFor();

    const { context, page, complaints } = await openWindow(browser, program.url);
    await signIn(page, owner);
    await page.goto("/dashboard/settings");
    const role = (email: string) => page.getByRole("combobox", { name: `Role of ${email}` });
    const choose = async (email: string, to: "owner" | "member") => {
      await role(email).click();
      await page.getByRole("option", { name: to }).click();
      await page
        .getByRole("button", { name: to === "owner" ? "Make an owner" : "Make a member" })
        .click();
    };
    await choose(other.email, "member");
    await expect.poll(() => role(other.email).inputValue()).toBe("member");
    expect(await violations(page)).toEqual([]);
    // After the refusal the page asks for the session again, and no longer offers what the user may not do.
    await theirs.page.keyboard.press("Enter");
    await theirs.page.getByText("Only owners of the account may").waitFor();
    await expect.poll(() => theirs.page.getByRole("link", { name: "SMTP" }).count()).toBe(0);
    // Also where the action that was refused disappears together with its error.
    await settings.getByLabel("Days to keep").fill("80");
    await settings.getByRole("button", { name: "Save" }).click();
    await settings.getByRole("alert").getByText("Your role is “member” now.").waitFor();
    expect(await settings.getByText("At most 90").count()).toBe(0);
    const me = settings.getByRole("row", { name: other.email });
    await expect.poll(() => me.getByRole("cell").nth(1).textContent()).toBe("member");

    // The last owner cannot leave the account without an owner.
    await choose(owner.email, "member");
    await page.getByRole("alert").getByText("The user is the account's last owner").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    expect(await role(owner.email).inputValue()).toBe("owner");
    await choose(other.email, "owner");
    await expect.poll(() => role(other.email).inputValue()).toBe("owner");
    await show(settings, "visible");
    await expect
      .poll(() => settings.locator(".mantine-Notification-root").allTextContents())
      .toEqual(["Your role is “owner” now."]);
    expect(complaints).toEqual([]);
    await context.close();
    await theirs.context.close();
  });
});
