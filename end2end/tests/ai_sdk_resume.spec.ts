import { answers, expectSettled, expectSound, expectValid, plain } from "../ai_sdk/checks";
import { type Chat, words } from "../ai_sdk/client";
import { expect, test } from "../ai_sdk/fixtures";

const STEADY = "One piece after the other, none too early and none too late, until the steady end.";

/** Waits until this many letters of the answer are there. */
async function reads(chat: Chat, letters: number): Promise<void> {
  await chat.when(`${letters} letters of the answer`, () => words(chat.messages.at(-1)).length >= letters);
}

test("resumed in mid-answer, a tab that loads the list and one that does not have what an undisturbed one has", async ({ open }) => {
  const calm = open();
  const turn = await calm.begin("A steady one, please");
  await reads(calm, 20);
  const loaded = open({ id: calm.id, messages: await calm.stored() });
  const bare = open({ id: calm.id });
  await Promise.all([loaded.resumeStream(), bare.resumeStream(), turn.over]);
  for (const tab of [calm, loaded, bare]) {
    expect(tab.status).toBe("ready");
    expect(tab.finished?.finishReason).toBe("stop");
    expect(answers(tab.messages)).toEqual(answers(calm.messages));
  }
  expect(calm.messages.map(words)).toEqual(["A steady one, please", STEADY]);
  expect(bare.messages, "one message, from its start").toHaveLength(1);
  await expectSettled(calm);
  await expectSettled(loaded);
});

test("a client whose connection broke resumes into the same message", async ({ program }) => {
  await program.begin("A steady one, please");
  await reads(program, 20);
  await program.close();
  const [, half] = program.messages;
  expect(words(half).length).toBeLessThan(STEADY.length);
  await program.resumeStream();
  expect(program.messages.map((message) => message.id)).toEqual([program.messages[0]?.id, half?.id]);
  expect(words(program.messages[1])).toBe(STEADY);
  await expectSettled(program);
});

test("a closed tab does not stop its answer", async ({ program }) => {
  await program.begin("A steady one, please");
  await program.close();
  expect(program.finished?.isAbort).toBe(true);
  // Nobody reads now. Whoever comes later waits for the end by reading.
  const late = await program.attach();
  expect(words(late ?? undefined)).toBe(STEADY);
  const stored = await program.stored();
  expect(answers(stored)).toEqual(late && [plain(late)]);
});

test("a reader who comes at any moment gets the whole answer, or 204 when it is over", async ({ program }) => {
  const turn = await program.begin("A steady one, please");
  const readers = [program.attach()];
  let seen = "";
  while (program.status === "streaming") {
    // At each piece, the last one included, and once more when the end has come.
    await program.when("more of the answer", () => words(program.messages.at(-1)) !== seen || program.status !== "streaming");
    seen = words(program.messages.at(-1));
    readers.push(program.attach());
  }
  await turn.over;
  const whole = (await Promise.all(readers)).filter((message) => message !== null);
  expect(whole.length).toBeGreaterThan(10);
  expect(whole.map(plain)).toEqual(whole.map(() => answers(program.messages)[0]));
  await expectSettled(program);
});

test("nothing live is 204: a chat that is not there, one that was answered, one that failed", async ({ open }) => {
  for (const question of [undefined, "A quick one", "It is cut here"]) {
    const chat = open();
    if (question) await chat.ask(question);
    const response = await chat.request("GET", "stream");
    expect([response.status, await response.text()], question).toEqual([204, ""]);
    chat.clearError();
    const before = chat.messages;
    await chat.resumeStream();
    expect([chat.status, chat.messages], "a client is not disturbed").toEqual(["ready", before]);
  }
});

test("an answer that is regenerated is resumed under its own id", async ({ open, program }) => {
  const turn = await program.begin("A steady one, please");
  await program.stopAnswer();
  await turn.over;
  const first = program.messages[1]?.id;
  const again = program.regenerate();
  await program.when("the new answer begins", () => program.messages[1]?.id !== first && words(program.messages[1]) !== "");
  const tab = open({ id: program.id, messages: await program.stored() });
  await Promise.all([tab.resumeStream(), again]);
  expect(tab.messages).toHaveLength(2);
  await expectSettled(tab);
  await expectSettled(program);
});

test("Stop ends the answer for every reader and keeps its words", async ({ open }) => {
  const program = open();
  const turn = await program.begin("An endless one");
  await reads(program, 20);
  const other = open({ id: program.id });
  const resumed = other.resumeStream();
  await other.when("the other tab reads", () => words(other.messages.at(-1)) !== "");
  expect((await other.stopAnswer()).ok).toBe(true);
  await Promise.all([turn.over, resumed]);
  for (const tab of [program, other]) {
    expect(tab.status, "not stuck, and no error").toBe("ready");
    // The SDK does not hear an `abort`; a reason to finish, it does.
    expect(["interrupted", undefined]).toContain(tab.finished?.finishReason);
    expect(words(tab.messages.at(-1))).toMatch(/^The first sentence of/);
  }
  expect(answers(other.messages)).toEqual(answers(program.messages));
  await expectSettled(program);
  await program.ask("And now?");
  expect(words(program.messages.at(-1))).toBe("Quick answer.");
  await expectSettled(program);
});

test("Stop may be said twice, at once and after the end, and changes nothing that is over", async ({ program }) => {
  const turn = await program.begin("An endless one");
  const [one, two] = await Promise.all([program.stopAnswer(), program.stopAnswer()]);
  expect([one.ok, two.ok]).toEqual([true, true]);
  await turn.over;
  const stopped = await program.stored();
  expect((await program.stopAnswer()).ok).toBe(true);
  expect(await program.stored()).toEqual(stopped);

  await program.ask("A quick one");
  const answered = await program.stored();
  expect((await program.stopAnswer()).ok).toBe(true);
  expect(await program.stored()).toEqual(answered);
  expect(words(answered[3])).toBe("Quick answer.");
});

test("Stop before the first word leaves a question without an answer, and the next one works", async ({ program }) => {
  const over = program.ask("Be silent");
  await program.when("the answer has a name", () => program.messages.length === 2);
  expect((await program.stopAnswer()).ok).toBe(true);
  await over;
  expect([program.status, words(program.messages[1])]).toEqual(["ready", ""]);
  await expectSettled(program);
  await program.ask("And now?");
  expect(program.messages.map(words)).toEqual(["Be silent", "", "And now?", "Quick answer."]);
  await expectSettled(program);
});

test("a tab that was closed and opened again can stop the answer", async ({ open, program }) => {
  await program.begin("An endless one");
  await program.close();
  const tab = open({ id: program.id, messages: await program.stored() });
  await expectValid(tab.messages, { live: true });
  const resumed = tab.resumeStream();
  await tab.when("it reads", () => tab.status === "streaming");
  await tab.stopAnswer();
  await resumed;
  await expectSettled(tab);
  await expectSound(tab);
});
