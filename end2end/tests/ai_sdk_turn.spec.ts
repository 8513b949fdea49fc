import type { UIMessage } from "ai";

import { answers, expectSettled, expectValid, outline, plain } from "../ai_sdk/checks";
import { type Chat, words } from "../ai_sdk/client";
import { expect, test } from "../ai_sdk/fixtures";
import { chunks } from "../ai_sdk/wire";

const STEADY = "One piece after the other, none too early and none too late, until the steady end.";

/** The types of the chunks of the last stream, repeated ones once; facts about the whole message may come anywhere. */
async function course(chat: Chat): Promise<string[]> {
  const wire = await chat.calls.at(-1)?.wire;
  const types = wire ? chunks(wire).map((chunk) => chunk.type) : [];
  return types.filter((type, place) => type !== types[place - 1] && type !== "message-metadata");
}

test("an answer is streamed step by step, and what is stored is what was streamed", async ({ program }) => {
  await program.ask("How are reads counted?");
  expect(program.status).toBe("ready");
  expect(program.finished).toEqual({ finishReason: "stop", isAbort: false, isDisconnect: false, isError: false });
  expect(await course(program)).toEqual(["start", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish"]);
  const [question, answer] = await program.stored();
  expect(question).toMatchObject({ role: "user", parts: [{ type: "text", text: "How are reads counted?" }] });
  expect(answer && plain(answer).parts).toEqual([{ type: "step-start" }, { type: "text", text: "Quick answer." }]);
  await expectSettled(program);
});

test("a conversation goes on, each question and each answer under an id of its own", async ({ program }) => {
  await program.ask("The first question");
  await program.ask("The second question");
  await program.ask("The second question");
  const said = program.messages.map(words);
  expect(said).toEqual(["The first question", "Quick answer.", "The second question", "Quick answer.", "The second question", "Quick answer."]);
  await expectSettled(program);
});

test("an answer carries agent, model, tokens and time", async ({ program }) => {
  await program.ask("Who answers?");
  const [, answer] = await program.stored();
  const metadata = answer?.metadata as Record<string, unknown>;
  expect(metadata).toMatchObject({
    agent: "router",
    model: expect.stringMatching(/./),
    usage: { inputTokens: expect.any(Number), outputTokens: expect.any(Number), totalTokens: expect.any(Number) },
  });
  const usage = metadata.usage as Record<string, number>;
  expect(usage.inputTokens).toBeGreaterThan(0);
  expect(usage.outputTokens).toBeGreaterThan(0);
  expect(usage.totalTokens).toBe((usage.inputTokens ?? 0) + (usage.outputTokens ?? 0));
  const age = Date.now() - new Date(metadata.createdAt as string | number).getTime();
  expect(Math.abs(age), "made now").toBeLessThan(60_000);
});

test("metadata that a client makes up is not stored", async ({ program }) => {
  await program.sendMessage({ text: "The first question", metadata: { agent: "forged", usage: { totalTokens: 999_999 } } });
  program.messages = program.messages.map((message) => ({ ...message, metadata: { agent: "forged" } }));
  await program.ask("The second question");
  const stored = await program.stored();
  expect(JSON.stringify(stored)).not.toMatch(/forged|999999/);
  expect(stored.map((message) => (message.metadata as { agent?: string } | undefined)?.agent)).toEqual([undefined, "router", undefined, "router"]);
});

test("the ids that the SDK makes are kept; the answer's id is the server's", async ({ program }) => {
  await program.ask("Under which name?");
  const [question, answer] = await program.stored();
  expect([program.id, question?.id]).toEqual([expect.stringMatching(/^[0-9A-Za-z]{16}$/), expect.stringMatching(/^[0-9A-Za-z]{16}$/)]);
  expect(question?.id).toBe(program.messages[0]?.id);
  expect(answer?.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
  expect(answer?.id).toBe(program.messages[1]?.id);
});

test("words arrive while the answer is being made, and the list has them too", async ({ program }) => {
  const lengths = new Set<number>();
  const turn = await program.begin("A steady one, please");
  const early = await program.stored();
  await expectValid(early, { live: true });
  expect(early[0]?.id).toBe(program.messages[0]?.id);
  if (early[1]) {
    expect(early[1].id).toBe(program.messages[1]?.id);
    expect(STEADY.startsWith(words(early[1]))).toBe(true);
  }
  await program.when("the answer ends", () => {
    lengths.add(words(program.messages.at(-1)).length);
    return program.status !== "streaming";
  });
  await turn.over;
  expect(lengths.size, `the lengths seen: ${[...lengths].join(" ")}`).toBeGreaterThan(10);
  expect(words(program.messages[1])).toBe(STEADY);
  await expectSettled(program);
});

test("a stream begins before the model has said a word", async ({ program }) => {
  const over = program.ask("Be silent");
  await program.when("the answer has a name", () => program.messages.length === 2);
  expect(program.messages[1]?.role).toBe("assistant");
  expect((await program.stopAnswer()).ok).toBe(true);
  await over;
  await expectSettled(program);
});

test("thoughts are reasoning, before the text, in the stream and in the store", async ({ program }) => {
  await program.ask("Please think");
  const types = ["start", "start-step", "reasoning-start", "reasoning-delta", "reasoning-end"];
  expect(await course(program)).toEqual([...types, "text-start", "text-delta", "text-end", "finish-step", "finish"]);
  const [, answer] = await program.stored();
  expect(answer && plain(answer).parts).toEqual([
    { type: "step-start" },
    // The SDK keeps the id of the stream in the message.
    { type: "reasoning", text: "First I weigh one side, then the other.", id: expect.any(String) },
    { type: "text", text: "The answer after some thought." },
  ]);
  await expectSettled(program);
});

test("both sides' words come through to the byte", async ({ program }) => {
  const question = '\tunicode 👩🏽‍🔬🧬 e\u0301 \u202Eright\u202C ﷽ 𝒢 \u2028 "quoted" \\n <b>&amp;</b> data: x\r\n\n: y [DONE] \uFEFF\u0001 end ';
  await program.ask(question);
  const stored = await program.stored();
  expect(words(stored[0])).toBe(question);
  expect(words(stored[1])).toBe("数据 данные נתונים 👩🏽‍🔬🧬 e\u0301 ﷽ 𝒢 — the end.");
  await expectSettled(program);
});

const FAILURES = [
  { what: "breaks off in mid-answer", question: "It is cut here", text: "What came before the cable was cut is kept.", error: "The connection to the model broke off." },
  { what: "fails at once", question: "It is broken", text: "", error: "The model's provider had a fault." },
  { what: "says nothing", question: "An empty one", text: "", error: "The model gave an empty answer." },
];

for (const { what, question, text, error } of FAILURES) {
  test(`a model that ${what} is an error in words, what came is kept, and the next question works`, async ({ program }) => {
    await program.ask(question);
    expect(program.status).toBe("error");
    expect(program.error?.message).toContain(error);
    expect(program.error?.message, "a sentence, not a report").toMatch(/^[A-Z][^{}<>"\n]*\.$/);
    expect(program.finished?.isDisconnect, "the end was told, the connection did not break").toBe(false);
    expect((await course(program)).at(-1)).toBe("error");
    expect(words(program.messages[1])).toBe(text);
    await expectSettled(program);

    program.clearError();
    await program.ask("And now?");
    expect(program.status).toBe("ready");
    expect(program.messages.map(words)).toEqual([question, text, "And now?", "Quick answer."]);
    await expectSettled(program);
  });
}

test("a client may send the last message alone", async ({ open }) => {
  const program = open({ lastOnly: true });
  await program.ask("The first question");
  await program.ask("The second question");
  expect(JSON.parse(program.calls.at(-1)?.sent ?? "")).toEqual({ id: program.id, message: program.messages[2] });
  expect(program.messages.map(words)).toEqual(["The first question", "Quick answer.", "The second question", "Quick answer."]);
  await expectSettled(program);
});

test("a conversation begun by another kind of program goes on by the SDK, and the other way round", async ({ open, user }) => {
  const conversation = await user.asked("Asked in the plain way");
  const program = open({ id: conversation });
  program.messages = await program.stored();
  expect(program.messages.map(words)).toEqual(["Asked in the plain way", "Quick answer."]);
  await program.ask("Asked by the SDK");
  await user.asked("Plain once more", conversation);
  expect(await user.answers(conversation)).toHaveLength(3);
  const stored = await program.stored();
  await expectValid(stored);
  expect(stored.map(words).filter((_, place) => place % 2 === 0)).toEqual(["Asked in the plain way", "Asked by the SDK", "Plain once more"]);
  expect(outline(stored).slice(0, 4)).toEqual(outline(program.messages));
});

test("a list that was loaded is sent back as it is and still only its last question counts", async ({ open, program }) => {
  await program.ask("The first question");
  const loaded: UIMessage[] = await program.stored();
  const again = open({ id: program.id, messages: loaded });
  await again.ask("The second question");
  expect(answers(await again.stored()).slice(0, 1)).toEqual(answers(loaded));
  await expectSettled(again);
});
