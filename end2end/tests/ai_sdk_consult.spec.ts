import { answers, expectSettled, expectWaiting } from "../ai_sdk/checks";
import { type Chat, words } from "../ai_sdk/client";
import { expect, test } from "../ai_sdk/fixtures";

// Calls of consulted agents. The SDK has no such thing: to it they are calls of the one answer.

function states(chat: Chat): string[] {
  return chat.tools().map((part) => part.state);
}

const DONE = "output-available";

test("an agent that was consulted by another asks in a step of its own, in its name", async ({ open }) => {
  const program = open({ automatic: true });
  await program.ask("sdk consult");
  await expectWaiting(program);
  const parts = program.messages[1]?.parts ?? [];
  expect(parts.map((part) => part.type)).toEqual([
    ...["step-start", "text", "tool-consult_agent"],
    ...["step-start", "tool-consult_agent"],
    ...["step-start", "tool-test_gated"],
  ]);
  const by = (agent: string) => ({ callProviderMetadata: { chatgxy: { agent } } });
  expect(program.tools()).toMatchObject([
    { state: "input-available", input: { agent: "error_analysis" } },
    { state: "input-available", input: { agent: "custom_tool" }, ...by("error_analysis") },
    { state: "approval-requested", ...by("custom_tool") },
  ]);
  expect(program.tools()[0], "the answering agent's own call").not.toHaveProperty("callProviderMetadata");
  await program.addToolApprovalResponse({ id: String(program.asking[0]), approved: true });
  await program.when("it ended", () => program.status === "ready" && states(program).every((state) => state === "output-available"));
  expect([program.posts.length, await program.runs()]).toEqual([2, 1]);
  expect(words(program.messages[1])).toContain("INNER");
  expect(words(program.messages[1]), "what it thought stays its own").not.toContain("innermost agent thinks");
  await expectSettled(program);
});

test("a denied call of a consulted agent is told to all who asked", async ({ program }) => {
  await program.ask("sdk consult");
  await program.decide(false, { reason: "Too deep" });
  expect([states(program), await program.runs()]).toEqual([["output-available", "output-available", "output-denied"], 0]);
  expect(words(program.messages[1])).toContain("Too deep");
  await expectSettled(program);
});

test("a page that is loaded again while a consulted agent's tool runs follows the whole answer", async ({ open, program }) => {
  await program.ask("sdk far");
  const decided = program.decide(true);
  await program.when("it runs", () => program.status === "streaming");
  const loaded = open({ id: program.id, messages: await program.stored() });
  expect(states(loaded)).toEqual(["input-available", "approval-responded"]);
  const bare = open({ id: program.id });
  await Promise.all([loaded.resumeStream(), bare.resumeStream(), decided]);
  expect(answers(loaded.messages)).toEqual(answers(program.messages));
  expect(answers(bare.messages)).toEqual(answers(program.messages));
  expect([states(program), await program.runs()]).toEqual([[DONE, DONE], 1]);
  await expectSettled(program);
  await expectSettled(loaded);
});

test("two agents that were consulted at once ask together, and are answered together or one by one", async ({ open }) => {
  for (const together of [true, false]) {
    const program = open();
    await program.ask("sdk both agents");
    await expectWaiting(program);
    const parts = program.messages[1]?.parts ?? [];
    const last = parts.slice(parts.findLastIndex((part) => part.type === "step-start") + 1);
    expect(last.map((part) => part.type), "both in the last step").toEqual(["tool-test_gated", "tool-test_gated"]);
    const [one, two] = program.asking;
    if (together) await program.decide(true);
    else {
      await program.decide(true, { id: two });
      await expectWaiting(program);
      expect([program.asking, await program.runs()]).toEqual([[one], 1]);
      await program.decide(false, { id: one, reason: "Not this" });
    }
    expect([program.finished?.finishReason, await program.runs()]).toEqual(["stop", together ? 2 : 1]);
    expect(words(program.messages[1])).toContain("INNERMOST");
    await expectSettled(program);
  }
});

test("an agent that asks itself while another asks for it goes on when both are answered", async ({ open }) => {
  for (const order of [[0, 1], [1, 0]] as const) {
    const program = open();
    await program.ask("sdk beside");
    await expectWaiting(program);
    const asked = program.asking;
    expect(asked).toHaveLength(2);
    for (const place of order) await program.decide(true, { id: asked[place] });
    expect([program.finished?.finishReason, await program.runs()]).toEqual(["stop", 2]);
    await expectSettled(program);
  }
});

// It looks at the last step only: a question beside a consulted agent's, answered after that one's, has to be sent by the person.
test("a client that sends by itself sends when the last of all that is asked is answered, in their order", async ({ open }) => {
  for (const order of [[0, 1]] as const) {
    const program = open({ automatic: true });
    await program.ask("sdk beside");
    const asked = program.asking;
    for (const place of order) {
      await program.addToolApprovalResponse({ id: String(asked[place]), approved: true });
      await program.when("it is ready", () => program.status === "ready");
    }
    await program.when("it ended", () => program.status === "ready" && states(program).every((state) => state === DONE));
    expect(await program.runs()).toBe(2);
    await expectSettled(program);
  }
});

test("Stop ends all agents that were consulted", async ({ program }) => {
  await program.ask("sdk far");
  const decided = program.decide(true);
  await program.when("it runs", () => program.status === "streaming");
  expect((await program.stopAnswer()).ok).toBe(true);
  await decided;
  expect([program.finished?.finishReason, states(program)]).toEqual(["interrupted", ["output-error", "output-error"]]);
  await expectSettled(program);
});
