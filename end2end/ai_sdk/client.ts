// A program that talks to the server by the AI SDK's own client: the list of messages, the requests and the reading of streams are
// all the SDK's. What comes over the wire is recorded byte for byte.

import {
  AbstractChat,
  type ChatState,
  type ChatStatus,
  DefaultChatTransport,
  type DynamicToolUIPart,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
  type ToolUIPart,
  type UIMessage,
} from "ai";

import type { Wire } from "./wire";

/** Where the server is, and who calls. */
export interface Access {
  url: string;
  key: string;
}

/** A request and what came back. */
export interface Call {
  method: string;
  url: string;
  sent: string | undefined;
  status: number;
  headers: Headers;
  /** All of it; waits for its end. */
  wire: Promise<Wire>;
}

export interface Opening {
  id?: string;
  messages?: UIMessage[];
  /** Sends `{id, message}` as many applications do, instead of the whole list. */
  lastOnly?: boolean;
  /** Sends a message with answered calls by itself, as most applications do. */
  automatic?: boolean;
}

/** A call of a tool in a message. */
export type ToolPart = ToolUIPart | DynamicToolUIPart;

const WAIT_MS = 10_000;

/** A list of messages as `useChat` keeps it, and a bell that rings at each change. */
class List implements ChatState<UIMessage> {
  #status: ChatStatus = "ready";
  #error: Error | undefined;
  readonly bell = new EventTarget();

  constructor(private list: UIMessage[]) {}

  get status(): ChatStatus {
    return this.#status;
  }

  set status(status: ChatStatus) {
    this.#status = status;
    this.#ring();
  }

  get error(): Error | undefined {
    return this.#error;
  }

  set error(error: Error | undefined) {
    this.#error = error;
    this.#ring();
  }

  get messages(): UIMessage[] {
    return this.list;
  }

  set messages(messages: UIMessage[]) {
    this.list = messages;
    this.#ring();
  }

  pushMessage = (message: UIMessage): void => {
    this.messages = [...this.list, message];
  };

  popMessage = (): void => {
    this.messages = this.list.slice(0, -1);
  };

  replaceMessage = (index: number, message: UIMessage): void => {
    this.messages = this.list.with(index, this.snapshot(message));
  };

  snapshot = <T>(thing: T): T => structuredClone(thing);

  #ring(): void {
    this.bell.dispatchEvent(new Event("change"));
  }
}

/** One tab with one chat. */
export class Chat extends AbstractChat<UIMessage> {
  readonly access: Access;
  readonly calls: Call[];
  /** How the last answer ended, in the SDK's terms. */
  finished: { finishReason?: string; isAbort: boolean; isDisconnect: boolean; isError: boolean } | undefined;
  readonly #list: List;
  readonly #transport: DefaultChatTransport<UIMessage>;

  constructor(access: Access, { id, messages = [], lastOnly = false, automatic = false }: Opening = {}) {
    const calls: Call[] = [];
    const list = new List(messages);
    const transport = new DefaultChatTransport<UIMessage>({
      api: `${access.url}/api/chat`,
      headers: { "x-api-key": access.key },
      fetch: recording(calls),
      prepareSendMessagesRequest: lastOnly ? ({ id, messages }) => ({ body: { id, message: messages.at(-1) } }) : undefined,
    });
    super({
      id,
      state: list,
      transport,
      sendAutomaticallyWhen: automatic
        ? (chat) => lastAssistantMessageIsCompleteWithApprovalResponses(chat) || lastAssistantMessageIsCompleteWithToolCalls(chat)
        : undefined,
      onFinish: ({ finishReason, isAbort, isDisconnect, isError }) => (this.finished = { finishReason, isAbort, isDisconnect, isError }),
    });
    this.access = access;
    this.calls = calls;
    this.#list = list;
    this.#transport = transport;
  }

  /** The same chat in another tab, opened as an application opens it: with what the server has stored. */
  async tab(): Promise<Chat> {
    return new Chat(this.access, { id: this.id, messages: await this.stored() });
  }

  /** Asks and waits for the end of the answer. */
  async ask(text: string): Promise<void> {
    await this.sendMessage({ text });
  }

  /** Asks and waits for the first words of the answer. */
  async begin(text: string): Promise<Turn> {
    const before = this.messages.length;
    const over = this.sendMessage({ text });
    await this.when("the answer begins", () => this.messages.length === before + 2 && words(this.messages.at(-1)) !== "");
    return { over };
  }

  /** The calls of the last message, of one tool if it is named. */
  tools(name?: string): ToolPart[] {
    return tools(this.messages.at(-1)).filter((part) => name === undefined || part.type === `tool-${name}`);
  }

  /** What the calls ask that wait for a decision. */
  get asking(): string[] {
    return this.tools().flatMap((part) => (part.state === "approval-requested" ? [part.approval.id] : []));
  }

  /** Decides on what is asked, all of it unless one is named, and sends the decision. Waits for the end of what follows. */
  async decide(approved: boolean, { id, reason }: { id?: string; reason?: string } = {}): Promise<void> {
    for (const asked of id === undefined ? this.asking : [id]) await this.addToolApprovalResponse({ id: asked, approved, reason });
    await this.goOn();
  }

  /** Sends the answered message last, as it is now. */
  async goOn(): Promise<void> {
    await this.sendMessage();
  }

  /** How often something was sent, not counting what was only read. */
  get posts(): Call[] {
    return this.calls.filter((call) => call.method === "POST");
  }

  /** How often tools ran. */
  async runs(): Promise<number> {
    const { count } = (await (await this.request("GET", "execs")).json()) as { count: number };
    return count;
  }

  async edit(messageId: string, text: string): Promise<void> {
    await this.sendMessage({ text, messageId });
  }

  /** What closing the tab is for a server: the connection is gone. */
  async close(): Promise<void> {
    await this.stop();
  }

  /** Another reader of the live answer, by itself: the message at its end, `null` if nothing is live. */
  async attach(): Promise<UIMessage | null> {
    const stream = await this.#transport.reconnectToStream({ chatId: this.id });
    if (!stream) return null;
    let last: UIMessage | undefined;
    for await (const message of readUIMessageStream<UIMessage>({ stream, terminateOnError: true })) last = message;
    if (!last) throw new Error("a stream without a message");
    return last;
  }

  /** Waits until something is true of the list; looks at each change. */
  async when(what: string, holds: () => boolean): Promise<void> {
    if (holds()) return;
    await new Promise<void>((resolve, reject) => {
      const settle = (done: () => void) => {
        clearTimeout(timer);
        this.#list.bell.removeEventListener("change", look);
        done();
      };
      const fail = (why: string) => settle(() => reject(new Error(`${why}: ${what}; ${this.status}, ${JSON.stringify(this.messages)}`)));
      const look = () => {
        if (holds()) settle(resolve);
        else if (this.error) fail(this.error.message);
      };
      const timer = setTimeout(() => fail(`not within ${WAIT_MS} ms`), WAIT_MS);
      this.#list.bell.addEventListener("change", look);
    });
  }

  /** The list as the server gives it. */
  async stored(): Promise<UIMessage[]> {
    const response = await this.request("GET", "messages");
    if (response.status !== 200) throw new Error(`messages: ${response.status} ${await response.text()}`);
    return (await response.json()) as UIMessage[];
  }

  /** Ends the answer itself, for everyone. */
  async stopAnswer(): Promise<Response> {
    return this.request("POST", "stop");
  }

  /** Calls an address of this chat. */
  async request(method: string, what: "execs" | "messages" | "stop" | "stream"): Promise<Response> {
    return call(this.access, method, `/api/chat/${encodeURIComponent(this.id)}/${what}`);
  }
}

/** An answer on its way. Wrapped, since a bare promise would be awaited by whoever awaits its giver. */
export interface Turn {
  over: Promise<void>;
}

/** The words of a message. */
export function words(message: UIMessage | undefined): string {
  return (message?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
}

export function tools(message: UIMessage | undefined): ToolPart[] {
  return (message?.parts ?? []).filter(isToolUIPart);
}

/** The answer that a request went on with, as it was sent; none for a question. */
export function sentAnswer(call: Call): UIMessage | undefined {
  if (call.sent === undefined) return undefined;
  const body = JSON.parse(call.sent) as { message?: UIMessage; messages?: UIMessage[]; trigger?: string };
  const last = body.message ?? body.messages?.at(-1);
  return last?.role === "assistant" && body.trigger !== "regenerate-message" ? last : undefined;
}

/** A bare request in someone's name. A body that is not bytes or text is sent as JSON. */
export async function call(access: Access, method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const raw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
  return fetch(`${access.url}${path}`, {
    method,
    headers: { "x-api-key": access.key, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    body: raw ? (body as BodyInit | undefined) : JSON.stringify(body),
  });
}

/** `fetch`, and a note of each call. The copy is read to its end even when the SDK has had enough. */
function recording(calls: Call[]): typeof fetch {
  return async (input, init) => {
    const url = String(input);
    const response = await fetch(url, init);
    const { status, headers } = response;
    const sent = typeof init?.body === "string" ? init.body : undefined;
    calls.push({ method: init?.method ?? "GET", url, sent, status, headers, wire: wireOf(response.clone(), init?.signal) });
    return response;
  };
}

/** A response as it came. That it breaks off is forgiven only if we went away. */
export async function wireOf(response: Response, ours?: AbortSignal | null): Promise<Wire> {
  const pieces: Uint8Array[] = [];
  let cut = false;
  try {
    const reader = response.body?.getReader();
    for (let next = await reader?.read(); next?.value; next = await reader?.read()) pieces.push(next.value);
  } catch {
    cut = ours?.aborted === true;
  }
  return { headers: response.headers, bytes: new Uint8Array(Buffer.concat(pieces)), cut };
}
