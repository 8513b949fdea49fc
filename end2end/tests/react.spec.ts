import { type BrowserContext, type Page } from "@playwright/test";
import type { UIMessage } from "ai";

import { expectValid, plain } from "../ai_sdk/checks";
import { tools, words } from "../ai_sdk/client";
import { expect, test as base } from "../fixtures";
import { reactPage } from "../react/build";

// `useChat` in a browser, as it comes, against the server.

const ADDRESS = "/react";
const STEADY = "One piece after the other, none too early and none too late, until the steady end.";

class ReactPage {
  constructor(readonly page: Page) {}

  async open(chat?: string): Promise<void> {
    await this.page.goto(chat === undefined ? ADDRESS : `${ADDRESS}?chat=${chat}`);
    await expect(this.status).toHaveText("ready");
  }

  get status() {
    return this.page.getByRole("status", { name: "Status" });
  }

  get answer() {
    return this.page.getByRole("listitem", { name: "assistant" }).last();
  }

  get tool() {
    return this.answer.getByRole("group");
  }

  get chat(): string {
    return new URL(this.page.url()).searchParams.get("chat") ?? "";
  }

  async send(text: string): Promise<void> {
    await this.page.getByLabel("Question").fill(text);
    await this.page.getByRole("button", { name: "Send" }).click();
  }

  async press(name: "Allow" | "Deny" | "Stop"): Promise<void> {
    await this.page.getByRole("button", { name }).click();
  }

  async stored(): Promise<UIMessage[]> {
    const response = await this.page.request.get(`/api/chat/${this.chat}/messages`);
    expect(response.status()).toBe(200);
    return (await response.json()) as UIMessage[];
  }

  /** The page says what is stored, and nothing goes on. */
  async settled(): Promise<UIMessage[]> {
    await expect(this.status).toHaveText("ready");
    await expect(this.page.getByRole("alert")).toHaveCount(0);
    const stored = await this.stored();
    await expectValid(stored);
    const items = this.page.getByRole("listitem");
    await expect(items).toHaveText(stored.map(words));
    expect(await items.evaluateAll((all) => all.map((item) => item.id))).toEqual(stored.map((message) => message.id));
    expect((await this.page.request.get(`/api/chat/${this.chat}/stream`)).status()).toBe(204);
    return stored;
  }
}

interface Fixtures {
  /** The page of someone who is signed in, not yet opened. */
  react: ReactPage;
}

const test = base.extend<Fixtures, { html: string }>({
  html: [async ({}, use) => use(await reactPage()), { scope: "worker" }],

  react: async ({ context, html, user: _ }, use) => {
    await serve(context, html);
    await use(new ReactPage(await context.newPage()));
  },
});

/** At the server's own origin, so that the cookie of the person goes with each request. */
async function serve(context: BrowserContext, html: string): Promise<void> {
  await context.route((url) => url.pathname === ADDRESS, (route) => route.fulfill({ contentType: "text/html; charset=utf-8", body: html }));
}

test("a question is answered, and the next one too", async ({ react }) => {
  await react.open();
  await react.send("Please think");
  await expect(react.answer).toHaveText("The answer after some thought.");
  await react.send("And now?");
  await expect(react.answer).toHaveText("Quick answer.");
  expect(await react.settled()).toHaveLength(4);
});

test("Stop ends the answer and keeps its words", async ({ react }) => {
  await react.open();
  await react.send("An endless one");
  await expect(react.answer).toContainText("The first sentence");
  await react.press("Stop");
  const stored = await react.settled();
  expect(words(stored[1])).not.toContain("the end of the endless answer");
  await react.send("And now?");
  await expect(react.answer).toHaveText("Quick answer.");
  await react.settled();
});

test("a page that is loaded again in mid-answer reads on to its end", async ({ react }) => {
  await react.open();
  await react.send("A steady one, please");
  await expect(react.answer).toContainText("One piece");
  await react.page.reload();
  await expect(react.answer).toHaveText(STEADY);
  expect(await react.settled()).toHaveLength(2);
});

test("an allowed tool runs once, and the answer goes on in its message", async ({ react }) => {
  await react.open();
  await react.send("sdk gated");
  await react.press("Allow");
  await expect(react.answer).toContainText('Result: {"echo":"hi"}');
  const stored = await react.settled();
  expect(tools(stored[1])).toMatchObject([{ state: "output-available" }]);
  const runs = await react.page.request.get(`/api/chat/${react.chat}/execs`);
  expect(await runs.json()).toEqual({ count: 1 });
});

test("a tool is denied after the page was loaded again", async ({ react }) => {
  await react.open();
  await react.send("sdk gated");
  await expect(react.tool).toHaveAttribute("data-state", "approval-requested");
  await react.page.reload();
  await react.press("Deny");
  await expect(react.tool).toHaveAttribute("data-state", "output-denied");
  await react.settled();
});

test("a page that is loaded again while an allowed tool runs shows its result", async ({ react }) => {
  await react.open();
  await react.send("sdk lengthy");
  await react.press("Allow");
  await expect(react.tool).toHaveAttribute("data-state", "approval-responded");
  // By then the decision is the server's.
  await expect.poll(async () => tools((await react.stored())[1]).map((part) => part.state)).toEqual(["approval-responded"]);
  await react.page.reload();
  await expect(react.answer).toContainText('Result: {"echo":"hi"}');
  expect(await react.settled()).toHaveLength(2);
});

test("two tabs of one conversation show the same, whichever of them decides", async ({ react, context }) => {
  await react.open();
  await react.send("sdk two gated");
  await expect(react.tool).toHaveCount(2);
  const other = new ReactPage(await context.newPage());
  await other.open(react.chat);
  for (const _ of [1, 2]) await other.page.getByRole("button", { name: "Allow" }).first().click();
  await expect(other.answer).toContainText("Result:");
  const stored = await other.settled();
  // The first tab knows nothing of it yet, and is told by its own answer.
  await react.page.getByRole("button", { name: "Deny" }).first().click();
  await react.page.getByRole("button", { name: "Deny" }).first().click();
  await expect(react.answer).toContainText("Result:");
  expect((await react.settled()).map(plain)).toEqual(stored.map(plain));
});

test("an agent that was consulted asks, and its answer is sent by the page itself", async ({ react }) => {
  await react.open();
  await react.send("sdk consult");
  await react.press("Allow");
  await expect(react.answer).toContainText("INNER");
  const stored = await react.settled();
  expect(tools(stored[1]).map((part) => part.state)).toEqual(["output-available", "output-available", "output-available"]);
});
