import { expect, type Locator, type Page } from "@playwright/test";

import { alive } from "./alive";

/** One question with its answer. */
export class Turn {
  readonly prompt: Locator;
  readonly prose: Locator;
  readonly blocks: Locator;
  readonly notice: Locator;
  readonly reasoning: Locator;
  readonly copy: Locator;
  readonly good: Locator;
  readonly bad: Locator;
  readonly retry: Locator;
  readonly reason: Locator;
  readonly suggestions: Locator;
  readonly sources: Locator;
  readonly note: Locator;

  constructor(readonly root: Locator) {
    this.prompt = root.locator(".prompt-text");
    this.prose = root.locator(".prose");
    this.blocks = this.prose.locator("> .block");
    this.notice = root.locator(".notice");
    this.reasoning = root.getByRole("group").filter({ hasText: "Reasoning" });
    this.copy = root.getByRole("button", { name: "Copy answer", exact: true });
    this.good = root.getByRole("button", { name: "Good answer", exact: true });
    this.bad = root.getByRole("button", { name: "Bad answer", exact: true });
    this.retry = root.locator(".answer-foot").getByRole("button", { name: "Retry", exact: true });
    this.reason = root.getByRole("textbox", { name: "What was wrong? (optional)" });
    this.suggestions = root.getByRole("list", { name: "Suggestions" });
    this.sources = root.getByRole("navigation", { name: "Sources" });
    this.note = root.locator(".turn-note");
  }

  /** The call of that tool, as people read its name; also one of a consulted agent. */
  tool(name: string | RegExp): Call {
    return new Call(this.root.getByRole("region", { name: typeof name === "string" ? `Tool: ${name}` : name, exact: true }));
  }

  /** All calls, also those of consulted agents. */
  get tools(): Locator {
    return this.root.getByRole("region", { name: /^Tool: / });
  }

  get noticeRetry(): Locator {
    return this.notice.getByRole("button", { name: "Retry", exact: true });
  }

  /** Characters of the answer on screen. */
  async length(): Promise<number> {
    return (await this.prose.allTextContents()).join("").length;
  }

  async state(): Promise<string | null> {
    return this.root.getAttribute("data-state");
  }

  async ends(how: "answered" | "failed" | "interrupted" = "answered"): Promise<void> {
    await expect(this.root).toHaveAttribute("data-state", how, { timeout: 20_000 });
  }

  /** What is shown of the answer, to the byte. */
  async html(): Promise<string> {
    // The framework's marks between nodes are not shown, and depend on how a block came in.
    return this.prose.evaluate((prose) => prose.innerHTML.replaceAll("<!---->", ""));
  }
}

/** A call of a tool inside an answer. */
export class Call {
  readonly row: Locator;
  readonly body: Locator;
  readonly input: Locator;
  readonly output: Locator;
  readonly state: Locator;
  /** The question whether it may run. */
  readonly question: Locator;
  readonly path: Locator;
  readonly allow: Locator;
  readonly always: Locator;
  readonly reason: Locator;
  readonly deny: Locator;
  /** What a tab has to do. */
  readonly wait: Locator;
  readonly run: Locator;

  constructor(readonly root: Locator) {
    const card = root.locator("> .tool-card");
    this.row = card.locator("> summary");
    this.state = this.row.locator(".tool-state");
    this.body = card.locator("> .tool-body");
    this.input = this.body.locator(".tool-values");
    this.output = this.body.locator(".tool-output");
    this.question = root.locator("> .tool-ask");
    this.path = this.question.locator(".tool-path");
    this.allow = this.question.getByRole("button", { name: "Allow", exact: true });
    this.always = this.question.getByRole("button", { name: "Always allow here", exact: true });
    this.reason = this.question.getByRole("textbox", { name: "Reason", exact: true });
    this.deny = this.question.getByRole("button", { name: "Deny", exact: true });
    this.wait = root.locator("> .tool-wait");
    this.run = this.wait.getByRole("button", { name: "Do it in this tab", exact: true });
  }
}

/** `/chatgxy` */
export class ChatPage {
  readonly main: Locator;
  readonly title: Locator;
  readonly log: Locator;
  readonly turns: Locator;
  readonly composer: Locator;
  readonly send: Locator;
  readonly stop: Locator;
  readonly error: Locator;
  readonly agent: Locator;
  readonly jump: Locator;
  readonly earlier: Locator;
  readonly history: Locator;
  readonly items: Locator;
  readonly new: Locator;
  readonly clear: Locator;
  readonly dialog: Locator;
  readonly hide: Locator;
  readonly show: Locator;
  readonly toasts: Locator;
  readonly undo: Locator;
  readonly announcer: Locator;
  readonly theme: Locator;
  readonly examples: Locator;
  readonly offline: Locator;

  constructor(readonly page: Page) {
    this.main = page.getByRole("main");
    this.title = this.main.getByRole("heading", { level: 1 }).and(page.locator(".chat-title"));
    this.log = page.getByRole("log", { name: "Conversation", exact: true });
    this.turns = this.log.getByRole("article");
    this.composer = page.getByRole("textbox", { name: "Message", exact: true });
    this.send = page.getByRole("form", { name: "Message" }).getByRole("button", { name: "Send", exact: true });
    this.stop = page.getByRole("button", { name: "Stop", exact: true });
    // Found by class: while it says nothing it is not there for anyone, and has no role.
    this.error = page.locator(".composer-error");
    this.agent = page.getByRole("combobox", { name: "Agent" });
    this.jump = page.getByRole("button", { name: "Jump to latest" });
    this.earlier = page.getByRole("link", { name: "Show earlier turns" });
    this.history = page.getByRole("complementary", { name: "Conversations" });
    this.items = this.history.getByRole("listitem");
    this.new = this.history.getByRole("link", { name: "New", exact: true });
    this.clear = this.history.getByRole("button", { name: "Clear history", exact: true });
    this.dialog = page.getByRole("dialog", { name: "Clear history?" });
    this.hide = page.getByRole("link", { name: "Hide conversations" });
    this.show = page.getByRole("link", { name: "Show conversations" });
    this.toasts = page.locator(".toasts");
    this.undo = this.toasts.getByRole("button", { name: "Undo" });
    this.announcer = page.locator(".announcer");
    this.theme = page.getByRole("button", { name: /Theme/ });
    this.examples = page.locator(".examples").getByRole("button");
    this.offline = page.locator(".offline");
  }

  async open(conversation = "new"): Promise<this> {
    await this.page.goto(`/chatgxy/${conversation}`);
    await this.ready();
    return this;
  }

  async reload(): Promise<void> {
    await this.page.reload();
    await this.ready();
  }

  async ready(): Promise<void> {
    await alive(this.page);
    await expect(this.composer).toBeVisible();
  }

  /** The turn at that place on screen; negative counts from the end. */
  turn(place = -1): Turn {
    return new Turn(this.turns.nth(place));
  }

  async ask(question: string): Promise<Turn> {
    await this.composer.fill(question);
    await this.composer.press("Enter");
    const turn = this.turn();
    await expect(turn.prompt).toHaveText(question);
    return turn;
  }

  /** Waits until so many characters of the answer are there, and it still goes on. */
  async streams(turn: Turn, characters = 20): Promise<void> {
    await expect.poll(() => turn.length(), { intervals: [50] }).toBeGreaterThan(characters);
    await expect(turn.root).toHaveAttribute("data-state", "running");
  }

  item(title: string): Locator {
    return this.items.filter({ has: this.page.locator(".history-title").getByText(title, { exact: true }) });
  }

  async follow(title: string): Promise<void> {
    await this.item(title).getByRole("link").click();
    await expect(this.title).toHaveText(title);
  }

  async delete(title: string): Promise<void> {
    await this.item(title).hover();
    await this.history.getByRole("button", { name: `Delete conversation: ${title}`, exact: true }).click();
  }

  /** Name of the conversation in the address. */
  async conversation(): Promise<string> {
    await expect(this.page).toHaveURL(/\/chatgxy\/[0-9a-f-]{36}$/);
    return new URL(this.page.url()).pathname.split("/").at(-1) ?? "";
  }

  /** How far the end of the conversation is below what is seen, in pixels. */
  async below(): Promise<number> {
    return this.log.evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight);
  }
}
