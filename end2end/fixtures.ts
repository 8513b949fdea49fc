// What every browser test stands on: a server, people with accounts, and pages that must not complain.

import { type APIRequestContext, type BrowserContext, type BrowserContextOptions, test as base, expect } from "@playwright/test";
import { randomUUID } from "node:crypto";

import { AccountPage } from "./pages/AccountPage";
import { alive, noteWhenAlive } from "./pages/alive";
import { ChatPage } from "./pages/ChatPage";
import { Server } from "./server";

export { alive, expect, Server };

export const PASSWORD = "correct horse battery";

/** Fails a test on anything that a page should not do, unless the test said beforehand that it is about to happen. */
export class Guard {
  readonly problems: string[] = [];
  readonly #expected: RegExp[] = [];

  constructor(private readonly origins: string[]) {}

  expect(...patterns: RegExp[]): void {
    this.#expected.push(...patterns);
  }

  /** Another server of ours that pages may talk to. */
  allow(origin: string): void {
    this.origins.push(origin);
  }

  watch(context: BrowserContext): void {
    context.on("console", (message) => {
      if (["error", "warning", "assert"].includes(message.type())) {
        this.#note(`console ${message.type()}: ${message.text()} (${message.location().url})`);
      }
    });
    context.on("weberror", (error) => this.#note(`page error: ${String(error.error())}`));
    context.on("request", (request) => {
      const url = new URL(request.url());
      const goesOut = url.protocol !== "data:" && url.protocol !== "blob:" && url.protocol !== "about:";
      if (goesOut && !this.origins.includes(url.origin)) this.#note(`request to another origin: ${request.url()}`);
    });
  }

  #note(problem: string): void {
    if (!this.#expected.some((pattern) => pattern.test(problem))) this.problems.push(problem);
  }
}

/** What the API says of a turn, as far as the tests look at it. */
export interface StoredTurn {
  id: string;
  prompt: { text: string };
  feedback: { good: boolean; reason?: string } | null;
  state: unknown;
}

interface StoredConversation {
  summary: { id: number; turn_count: number };
  turns: { turn: StoredTurn }[];
}

/** Someone with an account, through whose cookie the API is called. */
export class Person {
  private constructor(
    readonly email: string,
    private readonly request: APIRequestContext,
    private readonly url: string,
  ) {}

  static async register(request: APIRequestContext, url: string): Promise<Person> {
    const email = `${randomUUID()}@example.org`;
    const response = await request.post(`${url}/api/fn/account/register`, { form: { email, password: PASSWORD } });
    expect(response.status(), await response.text()).toBe(200);
    return new Person(email, request, url);
  }

  /** Asks by the API and waits for the end of the turn, whatever it is; gives the name of the conversation. */
  async asked(query: string, conversation: string = randomUUID()): Promise<string> {
    const response = await this.request.post(`${this.url}/api/chat`, { data: { query, exchange_id: conversation } });
    expect([200, 502], await response.text()).toContain(response.status());
    return conversation;
  }

  /** Asks and does not wait. */
  async asks(query: string, conversation: string = randomUUID()): Promise<string> {
    await this.#call("chat/send", { exchange: conversation, query });
    return conversation;
  }

  async stored(conversation: string): Promise<StoredTurn[]> {
    const found = (await this.#call("chat/conversation", { name: conversation })) as StoredConversation;
    return found.turns.map((view) => view.turn);
  }

  /** The words of both sides as a program sees them. */
  async answers(conversation: string): Promise<string[]> {
    const response = await this.request.get(`${this.url}/api/chat/exchange/${conversation}/messages`);
    expect(response.status()).toBe(200);
    const messages = (await response.json()) as { role: string; content: string }[];
    return messages.filter((message) => message.role === "assistant").map((message) => message.content);
  }

  /** A new key, for programs. */
  async key(): Promise<string> {
    const made = (await this.#call("account/create-key", { name: "test" })) as { secret: string };
    return made.secret;
  }

  async #call(name: string, form: Record<string, string>): Promise<unknown> {
    const response = await this.request.post(`${this.url}/api/fn/${name}`, { form, headers: { accept: "application/json" } });
    expect(response.status(), await response.text()).toBe(200);
    return response.json();
  }
}

interface TestFixtures {
  guard: Guard;
  /** A new account, signed in in this test's context. */
  user: Person;
  /** The chat of that account, not yet opened. */
  chat: ChatPage;
  /** The account page of that account, not yet opened. */
  account: AccountPage;
  /** Another browser or device, watched like the first. */
  device: (options?: BrowserContextOptions) => Promise<BrowserContext>;
  serverLog: void;
}

export const test = base.extend<TestFixtures, { server: Server }>({
  server: [
    async ({}, use) => {
      const server = await Server.start();
      await use(server);
      await server.stop();
    },
    { scope: "worker" },
  ],

  baseURL: async ({ server }, use) => use(server.url),

  serverLog: [
    async ({ server }, use, info) => {
      const mark = server.mark;
      await use();
      if (info.status !== info.expectedStatus) console.log(server.logSince(mark).join("\n"));
    },
    { auto: true },
  ],

  guard: async ({ server }, use) => {
    const guard = new Guard([server.url]);
    await use(guard);
    expect(guard.problems, "pages are quiet and stay at home").toEqual([]);
  },

  context: async ({ context, guard }, use) => {
    guard.watch(context);
    await context.addInitScript(noteWhenAlive);
    await use(context);
  },

  device: async ({ browser, guard }, use) => {
    const opened: BrowserContext[] = [];
    await use(async (options) => {
      const context = await browser.newContext(options);
      opened.push(context);
      guard.watch(context);
      await context.addInitScript(noteWhenAlive);
      return context;
    });
    await Promise.all(opened.map((context) => context.close()));
  },

  user: async ({ context, server }, use) => use(await Person.register(context.request, server.url)),

  // The account is what makes these pages more than a sign-in.
  chat: async ({ page, user: _ }, use) => use(new ChatPage(page)),

  account: async ({ page, user: _ }, use) => use(new AccountPage(page)),
});
