// The linter's own tests. They need no server.

import { expect, test } from "@playwright/test";
import { createUIMessageStream, createUIMessageStreamResponse, type UIMessage } from "ai";

import { wireOf } from "../ai_sdk/client";
import { type Chunk, lint } from "../ai_sdk/wire";

const START = { type: "start", messageId: "m" };
const STEP = { type: "start-step" };
const TEXT = [
  { type: "text-start", id: "1" },
  { type: "text-delta", id: "1", delta: "a" },
];
const TEXT_END = { type: "text-end", id: "1" };
const STEP_END = { type: "finish-step" };
const FINISH = { type: "finish", finishReason: "stop" };
const SOUND = [START, STEP, ...TEXT, TEXT_END, STEP_END, FINISH];
const CALL = { type: "tool-input-available", toolCallId: "c", toolName: "t", input: {} };
const OUTPUT = { type: "tool-output-available", toolCallId: "c", output: null };
const REQUEST = { type: "tool-approval-request", approvalId: "a", toolCallId: "c" };
const ANSWER = { type: "tool-approval-response", approvalId: "a", approved: true };
const DENIED = { type: "tool-output-denied", toolCallId: "c" };
const PAUSE = { ...FINISH, finishReason: "tool-calls" };
const BEGUN = { type: "tool-input-start", toolCallId: "c", toolName: "t" };
const PIECE = { type: "tool-input-delta", toolCallId: "c", inputTextDelta: "{}" };
const SOURCE = { type: "source-url", sourceId: "s", url: "https://example.org" };

const HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  "x-vercel-ai-ui-message-stream": "v1",
  "x-accel-buffering": "no",
};

function body(chunks: Chunk[], end = "data: [DONE]\n\n"): string {
  return chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("") + end;
}

function linted(text: string, headers: Record<string, string> = HEADERS, cut = false, known?: UIMessage): Promise<string[]> {
  return lint({ headers: new Headers(headers), bytes: new TextEncoder().encode(text), cut }, known);
}

/** A message that a client has, with one call in this state. */
function has(part: Record<string, unknown>): UIMessage {
  return { id: "m", role: "assistant", parts: [{ type: "step-start" }, { type: "tool-t", toolCallId: "c", input: {}, ...part }] } as unknown as UIMessage;
}

test("the linter takes what the SDK's own server says", async () => {
  const stream = createUIMessageStream({
    generateId: () => "m",
    execute: ({ writer }) => {
      for (const chunk of SOUND) writer.write(chunk as never);
    },
  });
  expect(await lint(await wireOf(createUIMessageStreamResponse({ stream, keepAliveMs: 1 })))).toEqual([]);
});

test("the linter takes every kind of end, calls of tools, and a stream that we left", async () => {
  const streams = [
    [START, FINISH],
    [START, { type: "error", errorText: "It broke." }],
    [START, STEP, ...TEXT, TEXT_END, { type: "abort" }],
    [START, STEP, ...TEXT, TEXT_END, { type: "message-metadata", messageMetadata: { n: 1 } }, { type: "error", errorText: "It broke." }],
    [START, STEP, { type: "reasoning-start", id: "1" }, { type: "reasoning-end", id: "1" }, ...TEXT, TEXT_END, STEP_END, FINISH],
    [START, STEP, CALL, OUTPUT, STEP_END, STEP, ...TEXT, TEXT_END, STEP_END, FINISH],
    [START, STEP, CALL, REQUEST, ANSWER, OUTPUT, STEP_END, FINISH],
    [START, STEP, CALL, REQUEST, { ...ANSWER, approved: false }, DENIED, STEP_END, FINISH],
    [START, STEP, CALL, REQUEST, STEP_END, PAUSE],
    [START, STEP, BEGUN, PIECE, CALL, OUTPUT, STEP_END, FINISH],
    [START, STEP, BEGUN, { ...PIECE, inputTextDelta: "{bad" }, CALL, { type: "tool-output-error", toolCallId: "c", errorText: "No." }, STEP_END, FINISH],
    [START, STEP, { ...CALL, providerExecuted: true }, STEP_END, STEP, { ...CALL, toolCallId: "d" }, STEP_END, PAUSE],
    [START, STEP, CALL, { type: "reset-step" }, CALL, OUTPUT, STEP_END, FINISH],
    [START, STEP, SOURCE, { ...SOURCE, sourceId: "other", url: "/here" }, { type: "data-notice", data: { text: "Enough." } }, STEP_END, FINISH],
    [START, STEP, ...TEXT, { type: "reset-step" }, ...TEXT, TEXT_END, STEP_END, FINISH],
    [START, STEP, { type: "data-note", data: null }, STEP_END, { type: "data-ping", data: {}, transient: true }, FINISH],
  ];
  for (const stream of streams) expect(await linted(body(stream)), JSON.stringify(stream)).toEqual([]);
  const sound = body(SOUND);
  for (let length = 0; length < sound.length; length += 1) expect(await linted(sound.slice(0, length), HEADERS, true)).toEqual([]);
});

test("the linter finds what the SDK refuses and what it takes in silence", async () => {
  const bad: [what: RegExp, stream: Chunk[]][] = [
    [/unknown chunk ping/, [START, { type: "ping" }, FINISH]],
    [/unknown chunk data-/, [START, { type: "data-", data: 1 }, FINISH]],
    [/Metadata: null/, [{ ...START, messageMetadata: null }, FINISH]],
    [/refused by the SDK/, [START, { ...FINISH, finishReason: "tool_calls" }]],
    [/finish without finishReason/, [START, { type: "finish" }]],
    [/finish with unknown usage/, [START, { ...FINISH, usage: {} }]],
    [/start without messageId/, [{ type: "start" }, FINISH]],
    [/start-step before start/, [STEP, STEP_END, FINISH]],
    [/a second start/, [START, START, FINISH]],
    [/text-start outside of a step/, [START, ...TEXT, TEXT_END, FINISH]],
    [/start-step within a step/, [START, STEP, STEP, STEP_END, FINISH]],
    [/text 1 still open at finish-step/, [START, STEP, ...TEXT, STEP_END, FINISH]],
    [/text 1 still open at error/, [START, STEP, ...TEXT, { type: "error", errorText: "It broke." }]],
    [/text 1 still open at abort/, [START, STEP, ...TEXT, { type: "abort" }]],
    [/text 1 still open at the start of reasoning 2/, [START, STEP, ...TEXT, { type: "reasoning-start", id: "2" }]],
    [/delta of text 1, which is not open/, [START, STEP, ...TEXT.slice(1), STEP_END, FINISH]],
    [/end of text 1, which is not open/, [START, STEP, ...TEXT, TEXT_END, TEXT_END, STEP_END, FINISH]],
    [/text 1 for a second time/, [START, STEP, ...TEXT, TEXT_END, ...TEXT, TEXT_END, STEP_END, FINISH]],
    [/finish within a step/, [START, STEP, ...TEXT, TEXT_END, FINISH]],
    [/error after finish/, [...SOUND, { type: "error", errorText: "It broke." }]],
    [/ends without finish/, SOUND.slice(0, -1)],
    [/call c, which is unknown/, [START, STEP, OUTPUT, STEP_END, FINISH]],
    [/call c, which is closed/, [START, STEP, CALL, OUTPUT, OUTPUT, STEP_END, FINISH]],
    [/call c, which is requested/, [START, STEP, CALL, REQUEST, OUTPUT, STEP_END, FINISH]],
    [/denied of call c, which is approved/, [START, STEP, CALL, REQUEST, ANSWER, DENIED, STEP_END, FINISH]],
    [/call c is available at finish/, [START, STEP, CALL, STEP_END, FINISH]],
    [/call c is requested at error/, [START, STEP, CALL, REQUEST, { type: "error", errorText: "It broke." }]],
    [/call b, which is unknown/, [START, STEP, { ...ANSWER, approvalId: "b" }, STEP_END, FINISH]],
    [/input of call c is not what came in pieces/, [START, STEP, BEGUN, { ...PIECE, inputTextDelta: '{"a":1}' }, CALL, OUTPUT, STEP_END, FINISH]],
    [/call c of t is now one of u/, [START, STEP, { ...BEGUN }, { ...CALL, toolName: "u" }, OUTPUT, STEP_END, FINISH]],
    [/call c is available at finish/, [START, STEP, { ...CALL, providerExecuted: true }, STEP_END, PAUSE]],
    [/call c is available at finish/, [START, STEP, { ...CALL, providerExecuted: true }, { ...CALL, toolCallId: "d" }, STEP_END, PAUSE]],
    [/call c is approved at finish/, [START, STEP, CALL, REQUEST, ANSWER, STEP_END, PAUSE]],
    [/approval a for a second time/, [START, STEP, CALL, REQUEST, { ...CALL, toolCallId: "d" }, { ...REQUEST, toolCallId: "d" }, STEP_END, PAUSE]],
    [/source s for a second time/, [START, STEP, SOURCE, SOURCE, STEP_END, FINISH]],
    [/no page can link to/, [START, STEP, { ...SOURCE, url: "javascript:alert(1)" }, STEP_END, FINISH]],
    [/data-notice without words/, [START, STEP, { type: "data-notice", data: {} }, STEP_END, FINISH]],
    [/without output/, [START, STEP, CALL, { type: OUTPUT.type, toolCallId: "c" }, STEP_END, FINISH]],
    [/refused by the SDK/, [START, STEP, { ...TEXT[0], type: "text-start", providerMetadata: { p: "x" } }, TEXT_END, STEP_END, FINISH]],
  ];
  for (const [what, stream] of bad) expect(await linted(body(stream)), what.source).toContainEqual(expect.stringMatching(what));

  const sound = body(SOUND);
  const frames: [what: RegExp, text: string, headers?: Record<string, string>][] = [
    [/without \[DONE\]/, body(SOUND, "")],
    [/finish after \[DONE\]/, body(SOUND) + body([FINISH])],
    [/\[DONE\] twice/, `${sound}data: [DONE]\n\n`],
    [/\[DONE\] before finish/, body([START])],
    [/ends within an event/, sound.slice(0, -1)],
    [/ends without finish/, ""],
    [/carriage return/, sound.replaceAll("\n", "\r\n")],
    [/byte order mark/, `\uFEFF${sound}`],
    [/not one data line/, `event: x\n${sound}`],
    [/not one data line/, `0:"hi"\n\n${sound}`],
    [/not a chunk/, `data: {"type":\n\n${sound}`],
    [/not a chunk/, `data: []\n\n${sound}`],
    [/header content-type/, sound, { ...HEADERS, "content-type": "application/json" }],
    [/header cache-control/, sound, { ...HEADERS, "cache-control": "public" }],
    [/header x-vercel-ai-ui-message-stream/, sound, { ...HEADERS, "x-vercel-ai-ui-message-stream": "v2" }],
    [/header x-accel-buffering/, sound, { ...HEADERS, "x-accel-buffering": "yes" }],
    [/header content-encoding/, sound, { ...HEADERS, "content-encoding": "gzip" }],
  ];
  for (const [what, text, headers] of frames) expect(await linted(text, headers), what.source).toContainEqual(expect.stringMatching(what));
});

test("the linter takes a stream that goes on with a message, and finds what does not fit it", async () => {
  const approval = { id: "a" };
  const decided = { state: "approval-responded", approval: { id: "a", approved: true } };
  const good: [known: Record<string, unknown>, stream: Chunk[]][] = [
    [decided, [START, ANSWER, OUTPUT, STEP_END, STEP, ...TEXT, TEXT_END, STEP_END, FINISH]],
    [decided, [START, { ...ANSWER, approved: false }, DENIED, STEP_END, FINISH]],
    [decided, [START, REQUEST, { ...ANSWER, approved: false }, DENIED, STEP_END, FINISH]],
    [{ state: "approval-requested", approval }, [START, STEP_END, PAUSE]],
    [{ state: "output-available", output: 1 }, [START, STEP_END, FINISH]],
    [{ state: "output-available", output: 1 }, [START, OUTPUT, STEP_END, FINISH]],
  ];
  for (const [known, stream] of good) {
    expect(await linted(body(stream), HEADERS, false, has(known)), JSON.stringify([known, stream])).toEqual([]);
  }
  const bad: [what: RegExp, known: Record<string, unknown>, stream: Chunk[]][] = [
    [/start of n, which is another message/, decided, [{ ...START, messageId: "n" }, ANSWER, OUTPUT, STEP_END, FINISH]],
    [/output-available of call c, which is requested/, decided, [START, OUTPUT, STEP_END, FINISH]],
    [/input-available of call c, which is requested/, decided, [START, CALL, ANSWER, OUTPUT, STEP_END, FINISH]],
    [/call c is requested at finish/, decided, [START, STEP_END, FINISH]],
    [/start-step within a step/, decided, [START, STEP, ANSWER, OUTPUT, STEP_END, FINISH]],
    [/call c, which is closed/, { state: "output-available", output: 1, providerExecuted: true }, [START, OUTPUT, STEP_END, FINISH]],
    [/approval a for a second time/, decided, [START, REQUEST, REQUEST, ANSWER, OUTPUT, STEP_END, FINISH]],
  ];
  for (const [what, known, stream] of bad) {
    expect(await linted(body(stream), HEADERS, false, has(known)), what.source).toContainEqual(expect.stringMatching(what));
  }
});

test("the linter takes comments, and refuses what is not UTF-8", async () => {
  const sound = body(SOUND);
  expect(await linted(`: stream-open\n\n:\n\n${sound.replaceAll("\n\n", "\n\n: keep-alive\n\n")}`)).toEqual([]);
  const bytes = new TextEncoder().encode(sound);
  bytes[10] = 0xff;
  expect(await lint({ headers: new Headers(HEADERS), bytes })).toContain("not UTF-8");
});
