// What must hold of messages, wherever they come from.

import { safeValidateUIMessages, type UIMessage } from "ai";

import { expect } from "../fixtures";
import { type Chat, sentAnswer, tools, words } from "./client";
import { lint } from "./wire";

/** A message as it would be sent. `state` says only whether a text still grows, and may be left out once it does not. */
export function plain(message: UIMessage): UIMessage {
  const copy = JSON.parse(JSON.stringify(message)) as UIMessage;
  for (const part of copy.parts) {
    if ((part.type === "text" || part.type === "reasoning") && part.state === "done") delete part.state;
  }
  return copy;
}

export function answers(messages: UIMessage[]): UIMessage[] {
  return messages.filter((message) => message.role === "assistant").map(plain);
}

/** Who said what, and under which id. */
export function outline(messages: UIMessage[]): [id: string, role: string, words: string][] {
  return messages.map((message) => [message.id, message.role, words(message)]);
}

/** A list that the SDK's own validator takes, with nothing in it that it would drop, and sound where the validator does not look. */
export async function expectValid(messages: UIMessage[], { live = false } = {}): Promise<void> {
  const result = await safeValidateUIMessages({ messages });
  expect(result.success ? "" : result.error.message, JSON.stringify(messages)).toBe("");
  if (result.success) expect(result.data, "nothing that the SDK does not know").toEqual(messages);
  expect(new Set(messages.map((message) => message.id)).size, "ids are unique").toBe(messages.length);
  const roles = messages.map((message) => message.role);
  expect(roles, "questions and answers take turns").toEqual(roles.map((_, place) => (place % 2 ? "assistant" : "user")));
  const waits = isWaiting(messages.at(-1));
  const settled = live || waits ? messages.slice(0, -1) : messages;
  for (const part of settled.flatMap((message) => message.parts)) {
    if ("state" in part) expect(["done", "output-available", "output-error", "output-denied", undefined]).toContain(part.state);
  }
  if (!waits) return;
  const open = tools(messages.at(-1)).filter(({ state }) => !state.startsWith("output-"));
  const last = open.at(-1);
  const asks = last?.state === "approval-requested" || (last?.state === "input-available" && !last.providerExecuted);
  expect(asks, "an answer that waits has a call that somebody can answer").toBe(true);
}

/** Whether the server says that it waits for somebody with this answer. */
export function isWaiting(message: UIMessage | undefined): boolean {
  return (message?.metadata as { state?: unknown } | undefined)?.state === "paused";
}

/** Nothing is live, the stored list is sound, and it is what the client has, question by question and answer by answer. */
export async function expectSettled(chat: Chat): Promise<void> {
  expect((await chat.request("GET", "stream")).status, "nothing is live").toBe(204);
  const stored = await chat.stored();
  await expectValid(stored);
  expect(outline(stored)).toEqual(outline(chat.messages));
  expect(answers(stored), "stored is what was streamed").toEqual(answers(chat.messages));
}

/** Like `expectSettled`, of an answer that waits for somebody. */
export async function expectWaiting(chat: Chat): Promise<void> {
  await expectSettled(chat);
  expect(isWaiting(chat.messages.at(-1)), "it waits").toBe(true);
  expect(chat.finished?.finishReason).toBe("tool-calls");
}

/** Every stream that the client has read is sound, also after what it had before. */
export async function expectSound(chat: Chat): Promise<void> {
  for (const call of chat.calls.filter((call) => call.status === 200)) {
    expect(await lint(await call.wire, sentAnswer(call)), `${call.method} ${call.url}`).toEqual([]);
  }
}

/** Refused in the server's one shape of errors; gives the words. */
export async function expectRefused(response: Response, status: number | [from: number, to: number], what = ""): Promise<string> {
  const text = await response.text();
  const [from, to] = typeof status === "number" ? [status, status] : status;
  const context = `${what} ${response.status} ${text.slice(0, 200)}`;
  expect(response.status, context).toBeGreaterThanOrEqual(from);
  expect(response.status, context).toBeLessThanOrEqual(to);
  expect(response.headers.get("content-type"), context).toMatch(/^application\/json\b/);
  const error = JSON.parse(text) as Record<string, unknown>;
  expect(error, context).toEqual({ err_msg: expect.stringMatching(/\S/), err_code: expect.any(Number) });
  expect(Math.floor(Number(error.err_code) / 1000), context).toBe(response.status);
  return String(error.err_msg);
}
