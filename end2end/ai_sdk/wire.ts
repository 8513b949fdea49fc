// A strict reader of UI message streams (AI SDK 7). The SDK's own client takes much in silence that leaves an answer half done, cut
// off or doubled; here every such thing has a name.

import { isDeepStrictEqual } from "node:util";

import { asSchema, isToolUIPart, uiMessageChunkSchema, type UIMessage } from "ai";

/** A response as it came. */
export interface Wire {
  headers: Headers;
  bytes: Uint8Array;
  /** Our side went away before the end. */
  cut?: boolean;
}

export type Chunk = { type: string } & Record<string, unknown>;

/** The fields of each chunk, required and allowed. Clients drop any other one without a word. */
const FIELDS: Record<string, [must: string[], may: string[]]> = {
  start: [["messageId"], ["messageMetadata"]],
  "start-step": [[], []],
  "finish-step": [[], []],
  "reset-step": [[], []],
  "text-start": [["id"], ["providerMetadata"]],
  "text-delta": [["id", "delta"], ["providerMetadata"]],
  "text-end": [["id"], ["citations", "providerMetadata"]],
  "reasoning-start": [["id"], ["providerMetadata"]],
  "reasoning-delta": [["id", "delta"], ["providerMetadata"]],
  "reasoning-end": [["id"], ["providerMetadata"]],
  "tool-input-start": [
    ["toolCallId", "toolName"],
    ["inputEncoding", "dynamic", "providerExecuted", "providerMetadata", "toolMetadata", "title"],
  ],
  "tool-input-delta": [["toolCallId", "inputTextDelta"], []],
  "tool-input-available": [
    ["toolCallId", "toolName", "input"],
    ["dynamic", "providerExecuted", "providerMetadata", "toolMetadata", "title"],
  ],
  "tool-input-error": [
    ["toolCallId", "toolName", "input", "errorText"],
    ["dynamic", "providerExecuted", "providerMetadata", "toolMetadata", "title"],
  ],
  "tool-approval-request": [
    ["approvalId", "toolCallId"],
    ["reason", "approvalDescriptor", "isAutomatic", "signature", "inputSchemaInput"],
  ],
  "tool-approval-response": [["approvalId", "approved"], ["reason", "providerExecuted", "providerMetadata"]],
  "tool-output-available": [
    ["toolCallId", "output"],
    ["preliminary", "dynamic", "providerExecuted", "providerMetadata", "toolMetadata"],
  ],
  "tool-output-error": [["toolCallId", "errorText"], ["dynamic", "providerExecuted", "providerMetadata", "toolMetadata"]],
  "tool-output-denied": [["toolCallId"], []],
  "source-url": [["sourceId", "url"], ["title", "providerMetadata"]],
  "source-document": [["sourceId", "mediaType", "title"], ["filename", "providerMetadata"]],
  file: [["url", "mediaType"], ["providerMetadata"]],
  "reasoning-file": [["url", "mediaType"], ["providerMetadata"]],
  custom: [["kind"], ["providerMetadata"]],
  "data-": [["data"], ["id", "transient"]],
  "message-metadata": [["messageMetadata"], []],
  "steering-message": [["id", "parts"], []],
  // A reason is not required by clients, but without one none of them can tell a whole answer from half of one.
  finish: [["finishReason"], ["messageMetadata"]],
  abort: [[], ["reason"]],
  error: [["errorText"], []],
};

/** Values that a tool, or an application, may well mean as they are. */
const MAY_BE_NULL = ["input", "output", "data"];
const STEPS = ["start-step", "finish-step", "reset-step"];
const ENDS = ["finish", "abort", "error"];
/** What is said of the message as a whole. */
const NO_PART = ["start", "message-metadata"];

/** Everything that is wrong with a stream, in order; nothing if it is sound. A stream that goes on with a message adds to `known`. */
export async function lint(wire: Wire, known?: UIMessage): Promise<string[]> {
  const { payloads, problems } = frames(wire);
  const order = new Order(known);
  for (const payload of payloads) {
    if (payload === "[DONE]") {
      order.done();
      continue;
    }
    const chunk = read(payload);
    if (!chunk) {
      problems.push(`not a chunk: ${payload.slice(0, 80)}`);
      continue;
    }
    problems.push(...shape(chunk));
    const known = await asSchema(uiMessageChunkSchema).validate?.(chunk);
    if (known && !known.success) problems.push(`refused by the SDK: ${JSON.stringify(chunk).slice(0, 120)}`);
    order.take(chunk);
  }
  if (!wire.cut) order.end();
  return [...headerProblems(wire.headers), ...problems, ...order.problems];
}

/** The chunks of a stream, whatever their order. */
export function chunks(wire: Wire): Chunk[] {
  return frames(wire).payloads.map(read).filter((chunk) => chunk !== undefined);
}

function headerProblems(headers: Headers): string[] {
  const wanted: [string, RegExp][] = [
    ["content-type", /^text\/event-stream(; ?charset=utf-8)?$/i],
    ["cache-control", /\bno-(cache|store)\b/],
    ["x-vercel-ai-ui-message-stream", /^v1$/],
    ["x-accel-buffering", /^no$/],
    // A compressor holds back words until it has enough of them.
    ["content-encoding", /^(identity)?$/],
  ];
  return wanted.filter(([name, value]) => !value.test(headers.get(name) ?? "")).map(([name]) => `header ${name}: ${headers.get(name)}`);
}

/** Events are one `data: ` line and a blank one; comments keep a silent connection open. */
function frames({ bytes, cut }: Wire): { payloads: string[]; problems: string[] } {
  const problems: string[] = [];
  let body = "";
  try {
    body = new TextDecoder("utf-8", { fatal: !cut, ignoreBOM: true }).decode(bytes);
  } catch {
    problems.push("not UTF-8");
  }
  if (/\r|^\uFEFF/.test(body)) problems.push("carriage return or byte order mark");
  const blocks = body.split("\n\n");
  if (blocks.pop() !== "" && !cut) problems.push("ends within an event");
  const payloads: string[] = [];
  for (const block of blocks) {
    const lines = block.split("\n").filter((line) => !line.startsWith(":"));
    if (lines.length > 1 || lines.some((line) => !line.startsWith("data: "))) problems.push(`not one data line: ${block.slice(0, 80)}`);
    payloads.push(...lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice("data: ".length)));
  }
  return { payloads, problems };
}

function read(payload: string): Chunk | undefined {
  try {
    const value: unknown = JSON.parse(payload);
    return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" ? (value as Chunk) : undefined;
  } catch {
    return undefined;
  }
}

function shape(chunk: Chunk): string[] {
  const [must, may] = FIELDS[/^data-./.test(chunk.type) ? "data-" : chunk.type] ?? [];
  if (!must || !may || chunk.type === "data-") return [`unknown chunk ${chunk.type}`];
  const keys = Object.keys(chunk).filter((key) => key !== "type");
  return [
    ...must.filter((key) => !keys.includes(key)).map((key) => `${chunk.type} without ${key}`),
    ...keys.filter((key) => !must.includes(key) && !may.includes(key)).map((key) => `${chunk.type} with unknown ${key}`),
    ...keys.filter((key) => chunk[key] === null && !MAY_BE_NULL.includes(key)).map((key) => `${chunk.type} with ${key}: null`),
  ];
}

/** `answered`: its output is the client's own. */
type State = "streaming" | "available" | "requested" | "approved" | "refused" | "answered" | "closed";

interface Call {
  state: State;
  step: number;
  name?: unknown;
  /** Its input as text, as far as it came in pieces. */
  text: string;
  /** Nobody but the server can end it. */
  ours: boolean;
  /** The stream has not spoken of it yet: the client has it from before. */
  known?: boolean;
}

/** How far a client is with a call that it has already. A decision of its own is none before the stream repeats it. */
const KNOWN: Record<string, State> = {
  "input-streaming": "streaming",
  "input-available": "available",
  "approval-requested": "requested",
  "approval-responded": "requested",
};

/** From which states a chunk may take a tool call, and to which. */
const CALLS: Record<string, [from: (State | undefined)[], to: State]> = {
  "tool-input-start": [[undefined], "streaming"],
  "tool-input-delta": [["streaming"], "streaming"],
  "tool-input-available": [[undefined, "streaming"], "available"],
  "tool-input-error": [[undefined, "streaming"], "closed"],
  "tool-approval-request": [["available"], "requested"],
  "tool-approval-response": [["requested"], "approved"],
  "tool-output-available": [["available", "approved", "answered"], "closed"],
  "tool-output-error": [["streaming", "available", "approved", "answered"], "closed"],
  // Only after a refusal: else the message that a client assembles is one that the SDK refuses when it is loaded again.
  "tool-output-denied": [["refused"], "closed"],
};

/** The order of chunks: one start, steps, parts one after the other in steps, all closed, one end, `[DONE]`, nothing more. */
class Order {
  readonly problems: string[] = [];
  #count = 0;
  #step = 0;
  #inStep = false;
  #open: string | undefined;
  #ended: string | undefined;
  #done = false;
  readonly #ids = new Map<string, number>();
  readonly #calls = new Map<string, Call>();
  readonly #approvals = new Map<string, string>();
  readonly #sources = new Set<unknown>();

  /** After a pause the step goes on in which the message stands. */
  constructor(private readonly known?: UIMessage) {
    for (const part of known?.parts ?? []) {
      if (part.type === "step-start") {
        this.#inStep = true;
        this.#step += 1;
      }
      if (!isToolUIPart(part)) continue;
      const { toolCallId, providerExecuted, approval } = part;
      const ours = providerExecuted === true;
      const state = KNOWN[part.state] ?? (ours ? "closed" : "answered");
      this.#calls.set(toolCallId, { state, step: this.#step, name: part.type.replace(/^tool-/, ""), text: "", ours, known: true });
      if (approval) this.#approvals.set(approval.id, toolCallId);
    }
  }

  take(chunk: Chunk): void {
    const { type } = chunk;
    this.#count += 1;
    if (this.#done) this.#note(`${type} after [DONE]`);
    if (this.#ended) this.#note(`${type} after ${this.#ended}`);
    if (type === "start" && this.#count > 1) this.#note("a second start");
    if (type !== "start" && this.#count === 1) this.#note(`${type} before start`);
    if (type === "start" && this.known && chunk.messageId !== this.known.id) this.#note(`start of ${String(chunk.messageId)}, which is another message`);
    if (STEPS.includes(type)) return this.#steps(type);
    if (ENDS.includes(type)) return this.#end(chunk);
    if (!NO_PART.includes(type) && chunk.transient !== true && !this.#inStep) this.#note(`${type} outside of a step`);
    const words = /^(text|reasoning)-(start|delta|end)$/.exec(type);
    if (words) this.#words(`${words[1]} ${String(chunk.id)}`, words[2] ?? "");
    if (type in CALLS) this.#call(chunk);
    if (type === "source-url") this.#source(chunk);
    if (type === "data-notice" && !hasText(chunk.data)) this.#note(`data-notice without words: ${JSON.stringify(chunk.data)}`);
  }

  done(): void {
    if (this.#done) this.#note("[DONE] twice");
    if (!this.#ended) this.#note("[DONE] before finish, abort or error");
    this.#done = true;
  }

  end(): void {
    if (!this.#ended) this.#note("ends without finish, abort or error");
    if (!this.#done) this.#note("ends without [DONE]");
  }

  #note(problem: string): void {
    this.problems.push(problem);
  }

  #steps(type: string): void {
    const inStep = type !== "start-step";
    if (this.#inStep !== inStep) this.#note(`${type} ${inStep ? "outside of" : "within"} a step`);
    if (type === "reset-step") {
      this.#open = undefined;
      for (const [id, step] of this.#ids) if (step === this.#step) this.#ids.delete(id);
      for (const [id, call] of this.#calls) if (call.step === this.#step) this.#calls.delete(id);
      for (const [approval, id] of this.#approvals) if (!this.#calls.has(id)) this.#approvals.delete(approval);
      return;
    }
    this.#closed(type);
    this.#inStep = !inStep;
    this.#step += 1;
  }

  #closed(before: string): void {
    if (this.#open) this.#note(`${this.#open} still open at ${before}`);
    this.#open = undefined;
  }

  #words(part: string, verb: string): void {
    if (verb === "start") {
      this.#closed(`the start of ${part}`);
      if (this.#ids.has(part)) this.#note(`${part} for a second time`);
      this.#ids.set(part, this.#step);
      this.#open = part;
      return;
    }
    if (this.#open !== part) this.#note(`${verb} of ${part}, which is not open`);
    else if (verb === "end") this.#open = undefined;
  }

  #call(chunk: Chunk): void {
    const { type } = chunk;
    const approval = String(chunk.approvalId);
    const id = type === "tool-approval-response" ? this.#approvals.get(approval) : String(chunk.toolCallId);
    const known = id === undefined ? undefined : this.#calls.get(id);
    const [from, to] = CALLS[type] ?? [[], "closed"];
    // Asked anew, a client takes back what it made of a question meanwhile.
    const anew = type === "tool-approval-request" && known?.known === true && this.#approvals.get(approval) === id;
    if (id === undefined || !(anew || from.includes(known?.state))) this.#note(`${type} of call ${id ?? approval}, which is ${known?.state ?? "unknown"}`);
    if (id === undefined) return;
    if (type === "tool-approval-request") {
      if (this.#approvals.has(approval) && !anew) this.#note(`approval ${approval} for a second time`);
      this.#approvals.set(approval, id);
    }
    const refused = type === "tool-approval-response" && chunk.approved === false;
    const goesOn = chunk.preliminary === true && known;
    const call: Call = known ?? { state: to, step: this.#step, name: chunk.toolName, text: "", ours: chunk.providerExecuted === true };
    if ("toolName" in chunk && chunk.toolName !== call.name) this.#note(`call ${id} of ${String(call.name)} is now one of ${String(chunk.toolName)}`);
    if (type === "tool-input-delta") call.text += String(chunk.inputTextDelta);
    // What is no JSON is the server's to judge.
    if (type === "tool-input-available" && call.text !== "" && isJson(call.text) && !isDeepStrictEqual(JSON.parse(call.text), chunk.input)) {
      this.#note(`input of call ${id} is not what came in pieces`);
    }
    call.known = false;
    call.state = refused ? "refused" : goesOn ? call.state : to;
    this.#calls.set(id, call);
  }

  #source({ sourceId, url }: Chunk): void {
    if (this.#sources.has(sourceId)) this.#note(`source ${String(sourceId)} for a second time`);
    this.#sources.add(sourceId);
    if (!/^https?:\/\//.test(String(url)) && !/^\/(?!\/)/.test(String(url))) this.#note(`source of ${String(url)}, which no page can link to`);
  }

  #end(chunk: Chunk): void {
    this.#closed(chunk.type);
    if (chunk.type === "finish" && this.#inStep) this.#note("finish within a step");
    const pauses = chunk.finishReason === "tool-calls";
    const open = [...this.#calls].filter(([, { state }]) => state !== "closed" && state !== "answered");
    const waits = ({ state, ours }: Call) => state === "requested" || (state === "available" && !ours);
    const last = Math.max(...open.map(([, { step }]) => step));
    for (const [id, call] of open) {
      // A call of the server's own may go on only over one that waits in a later step: clients look at the last step alone, and would
      // not send while anything in it is open.
      const over = call.state === "available" && call.ours && call.step < last && open.some(([, other]) => waits(other));
      if (!pauses || !(waits(call) || over)) this.#note(`call ${id} is ${call.state} at ${chunk.type}`);
    }
    this.#ended ??= chunk.type;
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function hasText(data: unknown): boolean {
  return typeof data === "object" && data !== null && "text" in data && typeof data.text === "string" && data.text !== "";
}
