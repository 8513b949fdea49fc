import { chromium, type Page } from "@playwright/test";
import { randomUUID } from "node:crypto";

import { need } from "../environment";
import { alive, expect, PASSWORD, test } from "../fixtures";
import { AccountPage } from "../pages/AccountPage";
import { ChatPage } from "../pages/ChatPage";
import { SignInPage } from "../pages/SignInPage";

/** The browser says each refused request on its console. */
const REFUSED = /Failed to load resource: the server responded with a status of 401/;

/** Everything that a page can keep in a browser, as text. */
async function kept(page: Page): Promise<string> {
  return page.evaluate(async () => {
    const caches_ = "caches" in window ? await caches.keys() : [];
    const databases = await indexedDB.databases();
    return JSON.stringify([{ ...localStorage }, { ...sessionStorage }, caches_, databases, document.cookie]);
  });
}

test("a new account is made by email and password, and greeted", async ({ page }) => {
  const form = await new SignInPage(page).open("/login");
  await page.getByRole("link", { name: "Create one" }).click();
  await expect(page.getByRole("heading", { name: "Create an account" })).toBeVisible();
  await form.fill(`${randomUUID()}@example.org`, PASSWORD);
  await form.create.click();
  await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeVisible();
  await expect(page).toHaveURL(/\/chatgxy\/new$/);
});

test("an email that has an account is refused, with a way on", async ({ page, user, device }) => {
  const other = await (await device()).newPage();
  const form = await new SignInPage(other).open("/register");
  await form.fill(user.email, PASSWORD);
  await form.create.click();
  await expect(form.error).toHaveText("There is an account with this email already. Sign in instead.");
  await expect(other.getByRole("link", { name: "Sign in" })).toBeVisible();
  expect(other.url(), "the address holds no password").not.toContain("horse");
  await page.goto("/chatgxy");
});

test("a person signs in on another device and finds everything", async ({ user, device }) => {
  await user.asked("What was that?");
  const page = await (await device()).newPage();
  await (await new SignInPage(page).open()).enter(user.email, PASSWORD);
  const chat = new ChatPage(page);
  await chat.ready();
  await expect(chat.turn().prompt).toHaveText("What was that?");
  await expect(chat.turn().prose).toHaveText("Quick answer.");
});

test("a wrong password says so, keeps no trace of it and signs nobody in", async ({ user, device }) => {
  const context = await device();
  const page = await context.newPage();
  const form = await new SignInPage(page).open();
  for (const [email, password] of [[user.email, "wrong horse battery"], ["nobody@example.org", PASSWORD]] as const) {
    await form.enter(email, password);
    await expect(form.error).toHaveText("The email or the password is wrong.");
    expect(decodeURIComponent(page.url())).not.toContain(password);
  }
  expect(await context.cookies()).toEqual([]);
  await page.goto("/chatgxy");
  await expect(page).toHaveURL(/\/login$/);
});

test("pages for signed-in people send everyone else to the sign-in", async ({ page }) => {
  for (const path of ["/", "/chatgxy", "/chatgxy/new", `/chatgxy/${randomUUID()}`, "/account"]) {
    await page.goto(path);
    await expect(page, path).toHaveURL(/\/login(\?next=[\w/-]+)?$/);
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  }
});

test("signing out ends the session at once, and the back button shows nothing", async ({ page, user, context, device, chat, account }) => {
  const conversation = await user.asked("My secret question");
  await chat.open(conversation);
  const cookies = await context.cookies();
  await account.open();
  await account.signOut.click();
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  for (let step = 0; step < 2; step += 1) {
    await page.goBack();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    expect(await page.content()).not.toContain("secret");
  }
  const thief = await device();
  await thief.addCookies(cookies);
  const stolen = await thief.newPage();
  await stolen.goto(`/chatgxy/${conversation}`);
  await expect(stolen).toHaveURL(/\/login\?next=/);
});

test("signed out, not even the browser's page cache shows a conversation", async ({ user, guard, server }) => {
  const conversation = await user.asked("My secret question");
  const browser = await chromium.launch({
    executablePath: need("CHROMIUM"),
    args: ["--no-sandbox"],
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
  try {
    const context = await browser.newContext({ baseURL: server.url });
    guard.watch(context);
    const page = await context.newPage();
    await (await new SignInPage(page).open()).enter(user.email, PASSWORD);
    await page.goto(`/chatgxy/${conversation}`);
    await expect(page.getByText("Quick answer.")).toBeVisible();
    await page.goto("/account");
    await new AccountPage(page).signOut.click();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await page.evaluate(() => history.go(-2));
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await expect(page.getByText("Quick answer.")).toHaveCount(0);
    await expect(page).toHaveURL(/\/login(\?next=[\w/-]+)?$/);
  } finally {
    await browser.close();
  }
});

test("private pages and answers of the API are never stored by the browser", async ({ page, user }) => {
  const conversation = await user.asked("hello");
  for (const path of ["/chatgxy/new", `/chatgxy/${conversation}`, "/account", "/api/chat/history"]) {
    const response = await page.request.get(path);
    expect(response.headers()["cache-control"], path).toBe("no-store");
  }
});

test("after signing out no word of the person is left in the browser", async ({ page, user, chat, account }) => {
  await chat.open(await user.asked("My secret question"));
  await chat.composer.fill("My secret draft");
  await chat.theme.click();
  await account.open();
  expect(await kept(page)).toContain("My secret draft");
  await account.signOut.click();
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  expect(await kept(page)).not.toContain("secret");
  expect(await kept(page)).not.toContain(user.email);
});

test("the next person in the same tab gets none of the drafts of the one before", async ({ page, user, context, chat }) => {
  await chat.open();
  await chat.composer.fill(`A draft of ${user.email}`);
  await context.clearCookies();
  const email = `${randomUUID()}@example.org`;
  const form = await new SignInPage(page).open("/register");
  await form.fill(email, PASSWORD);
  await form.create.click();
  await chat.ready();
  await expect(chat.composer).toHaveValue("");
});

test("changing the password signs out every other device at once, and keeps this one", async ({ page, user, device, guard, account }) => {
  const other = await (await device()).newPage();
  await (await new SignInPage(other).open()).enter(user.email, PASSWORD);
  const elsewhere = new ChatPage(other);
  await elsewhere.ready();

  await account.open();
  await account.current.fill(PASSWORD);
  await account.next.fill("a new horse battery");
  await account.change.click();
  await expect(account.changed).toBeVisible();
  await page.reload();
  await expect(page.getByRole("heading", { name: "Account", exact: true })).toBeVisible();

  guard.expect(REFUSED);
  await elsewhere.composer.fill("still here?");
  await elsewhere.composer.press("Enter");
  await expect(elsewhere.error).toContainText("Sign in to go on.");
  await expect(elsewhere.composer).toHaveValue("still here?");
  await other.getByRole("link", { name: "Sign in" }).click();
  await expect(other).toHaveURL(/\/login\?next=\/chatgxy\/new$/);
  const form = new SignInPage(other);
  await form.enter(user.email, PASSWORD);
  await expect(form.error).toHaveText("The email or the password is wrong.");
  await form.enter(user.email, "a new horse battery");
  await elsewhere.ready();
});

test("a wrong current password changes nothing and says so", async ({ page, user, device, account }) => {
  await account.open();
  await account.current.fill("not my password");
  await account.next.fill("a new horse battery");
  await account.change.click();
  await expect(account.error("Password")).toHaveText("The current password is wrong.");
  expect(page.url()).not.toContain("horse");
  const other = await (await device()).newPage();
  await (await new SignInPage(other).open()).enter(user.email, PASSWORD);
  await new ChatPage(other).ready();
});

test("an API key is shown once, works, and is dead as soon as it is deleted", async ({ page, user, server, playwright, account }) => {
  await user.asked("hello");
  await account.open();
  await expect(page.getByText("No keys yet.")).toBeVisible();
  await account.keyName.fill("my notebook");
  await account.createKey.click();
  const secret = (await account.newKey.locator("code").textContent()) ?? "";
  expect(secret).toMatch(/^chatgxy_[\w-]{43}$/);
  await expect(account.newKey).toContainText("Copy it now: it is shown once.");
  await expect(account.key("my notebook")).toContainText("never");

  const program = await playwright.request.newContext({ baseURL: server.url, extraHTTPHeaders: { "x-api-key": secret } });
  expect((await program.get("/api/chat/history")).status()).toBe(200);

  await page.reload();
  await alive(page);
  await expect(account.key("my notebook")).toBeVisible();
  await expect(account.key("my notebook")).not.toContainText("never");
  expect(await page.content()).not.toContain(secret);

  await expect(account.keyName).toHaveValue("");
  page.once("dialog", (dialog) => void dialog.dismiss());
  await page.getByRole("button", { name: "Delete key: my notebook" }).click();
  await expect(account.key("my notebook")).toBeVisible();
  page.once("dialog", (dialog) => {
    expect(dialog.message()).toContain("my notebook");
    void dialog.accept();
  });
  await page.getByRole("button", { name: "Delete key: my notebook" }).click();
  await expect(page.getByText("No keys yet.")).toBeVisible();
  expect((await program.get("/api/chat/history")).status()).toBe(401);
  await program.dispose();
});

test("an API key without a name is refused in words", async ({ guard, account }) => {
  guard.expect(/status of 400/);
  await account.open();
  await account.keyName.fill("   ");
  await account.createKey.click();
  await expect(account.error("API keys")).toHaveText("Give the key a name of 1 to 100 characters.");
});

test("a key's permission is chosen, shown and kept to", async ({ page, user, server, playwright, account }) => {
  await user.asked("hello");
  await account.open();
  await account.keyName.fill("reader");
  await page.getByLabel("Permission").selectOption({ label: "Read only" });
  await account.createKey.click();
  await expect(account.key("reader")).toContainText("Read only");
  const secret = (await account.newKey.locator("code").textContent()) ?? "";
  const program = await playwright.request.newContext({ baseURL: server.url, extraHTTPHeaders: { "x-api-key": secret } });
  expect((await program.get("/api/chat/history")).status()).toBe(200);
  expect((await program.post("/api/chat", { data: { query: "hello" } })).status()).toBe(403);
  await program.dispose();
});

test("after signing in comes the page that was wanted", async ({ user, device }) => {
  const conversation = await user.asked("hello");
  const page = await (await device()).newPage();
  await page.goto(`/chatgxy/${conversation}`);
  await expect(page).toHaveURL(/\/login\?next=/);
  await new SignInPage(page).enter(user.email, PASSWORD);
  await expect(page).toHaveURL(new RegExp(`/chatgxy/${conversation}$`));
});

test("signing out empties every tab and forgets what was typed there", async ({ page, user, context, account }) => {
  const conversation = await user.asked("My secret question");
  const other = await context.newPage();
  const elsewhere = new ChatPage(other);
  await other.goto(`/chatgxy/${conversation}`);
  await elsewhere.ready();
  await elsewhere.composer.fill("a secret draft");
  await account.open();
  await account.signOut.click();
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  await expect(other.getByRole("heading", { name: "Sign in" })).toBeVisible();
  expect(await other.content()).not.toContain("secret");
  expect(await other.evaluate(() => JSON.stringify(sessionStorage))).not.toContain("secret");
});
