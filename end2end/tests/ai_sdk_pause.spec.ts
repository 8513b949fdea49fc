import { answers, expectSettled, expectWaiting } from "../ai_sdk/checks";
import { call, type Chat, tools, words } from "../ai_sdk/client";
import { expect, test } from "../ai_sdk/fixtures";

// What else may come while an answer waits for somebody: nobody, Stop, another question, another answer.

const A_DAY = 24 * 60 * 60;

function denied(reason: string): unknown {
  return { state: "output-denied", approval: { approved: false, reason } };
}

/** The same chat as another tab loads it, with what the first one lacks. */
async function loaded(chat: Chat, open: (opening: { id: string; messages: Chat["messages"] }) => Chat): Promise<Chat> {
  return open({ id: chat.id, messages: await chat.stored() });
}

test("a question that nobody answers in time is denied for all who look", async ({ clock, open }) => {
  const program = open({}, clock.access);
  await program.ask("sdk gated");
  await clock.setForward(A_DAY - 60);
  await expectWaiting(program);
  await clock.setForward(A_DAY + 1);
  const [, stored] = await program.stored();
  expect(tools(stored)).toMatchObject([denied("Nobody answered in time.")]);
  // The tab still shows the question; its answer comes too late, and it is told so.
  await program.decide(true);
  expect([program.status, program.finished?.finishReason]).toEqual(["ready", "interrupted"]);
  expect(program.tools()).toMatchObject([denied("Nobody answered in time.")]);
  expect(await program.runs()).toBe(0);
  await expectSettled(program);
  await program.ask("And now?");
  expect(words(program.messages.at(-1))).toBe("Quick answer.");
  await expectSettled(program);
});

test("an answer that is itself the first to come too late is not taken, and a client that sends by itself does not send again", async ({ clock, open }) => {
  const program = open({ automatic: true }, clock.access);
  await program.ask("sdk gated");
  await clock.setForward(A_DAY + 1);
  await program.addToolApprovalResponse({ id: String(program.asking[0]), approved: true });
  await program.when("it ended", () => program.posts.length === 2 && program.status === "ready");
  expect(program.tools()).toMatchObject([denied("Nobody answered in time.")]);
  expect([program.posts.length, await program.runs()]).toEqual([2, 0]);
  await expectSettled(program);
});

test("Stop ends a pause, and an answer after it changes nothing", async ({ program }) => {
  await program.ask("sdk gated");
  expect((await program.stopAnswer()).ok).toBe(true);
  expect(tools((await program.stored())[1])).toMatchObject([denied("Stopped by the user.")]);
  await program.decide(true);
  expect([program.status, program.finished?.finishReason, await program.runs()]).toEqual(["ready", "interrupted", 0]);
  await expectSettled(program);
});

test("a new question takes the place of an answer, also in the middle of consulted agents", async ({ open }) => {
  for (const [question, left] of [["sdk gated", 1], ["sdk two gated", 2], ["sdk consult", 3], ["sdk browser", 1]] as const) {
    const program = open();
    await program.ask(question);
    await program.ask("And now?");
    expect([program.status, words(program.messages.at(-1))]).toEqual(["ready", "Quick answer."]);
    const tab = await loaded(program, open);
    const calls = tools(tab.messages[1]);
    expect(calls).toHaveLength(left);
    for (const part of calls) expect(["output-denied", "output-error"], question).toContain(part.state);
    await tab.ask("And then?");
    expect(await tab.runs()).toBe(0);
    await expectSettled(tab);
  }
});

test("an answer to a question that another one has replaced changes nothing", async ({ open, program }) => {
  await program.ask("sdk gated");
  const stale = await loaded(program, open);
  await program.ask("And now?");
  const before = await program.stored();
  await stale.decide(true);
  // It has no later message to go on with: it is told to load the conversation again.
  expect(stale.status).toBe("error");
  expect(stale.posts.at(-1)?.status).toBeGreaterThanOrEqual(400);
  expect(stale.posts.at(-1)?.status).toBeLessThan(500);
  expect([await program.stored(), await program.runs()]).toEqual([before, 0]);
});

test("an answer to an earlier message, in a list that has later ones, leaves the later ones as they are", async ({ program }) => {
  await program.ask("sdk gated");
  await program.ask("And now?");
  const [, { id }, , last] = program.messages as [unknown, { id: string }, unknown, unknown];
  const stored = await program.stored();
  const asked = tools(program.messages[1]).flatMap((part) => (part.state === "approval-requested" ? [part.approval.id] : []));
  await program.addToolApprovalResponse({ id: String(asked[0]), approved: true });
  await program.goOn();
  const { sent } = program.posts.at(-1) ?? {};
  expect(JSON.parse(sent ?? ""), "the client names the earlier one").toMatchObject({ messageId: id });
  expect(program.messages.map((message) => message.id)).toEqual(stored.map((message) => message.id));
  expect(program.messages[3], "the later one is untouched").toEqual(last);
  expect([await program.stored(), await program.runs()]).toEqual([stored, 0]);
});

test("another answer to the same question takes the place of one that waits", async ({ program }) => {
  await program.ask("sdk gated");
  const first = program.messages[1]?.id;
  await program.regenerate();
  await expectWaiting(program);
  expect(program.messages[1]?.id).not.toBe(first);
  await program.decide(true);
  expect([program.tools()[0]?.state, await program.runs()]).toEqual(["output-available", 1]);
  await expectSettled(program);
});

test("a question is changed while its answer waits", async ({ program }) => {
  await program.ask("sdk gated");
  await program.edit(String(program.messages[0]?.id), "Rather this");
  expect(program.messages.map(words)).toEqual(["Rather this", "Quick answer."]);
  expect(await program.runs()).toBe(0);
  await expectSettled(program);
});

test("an answer that waits may be decided by a plain request, and a client that looks later has all of it", async ({ access, open, program }) => {
  await program.ask("sdk lengthy");
  const path = `/api/chat/${program.id}/calls/${String(program.tools()[0]?.toolCallId)}`;
  expect((await call(access, "PUT", path, { approved: true })).status).toBe(204);
  const whole = await program.attach();
  const tab = await loaded(program, open);
  expect(answers(tab.messages)).toEqual(whole ? answers([whole]) : []);
  expect([tools(tab.messages[1])[0]?.state, await tab.runs()]).toEqual(["output-available", 1]);
  // The first tab still shows the question, and catches up by its own answer.
  await program.decide(false);
  expect(answers(program.messages)).toEqual(answers(tab.messages));
});
