import { expectSettled, expectValid } from "../ai_sdk/checks";
import { words } from "../ai_sdk/client";
import { expect, test } from "../ai_sdk/fixtures";
import { chunks } from "../ai_sdk/wire";

test("a tool of the server runs between two steps, and its sources end the message", async ({ program }) => {
  await program.ask("sdk search");
  expect(program.finished?.finishReason).toBe("stop");
  const [, answer] = program.messages;
  const kinds = answer?.parts.map((part) => part.type) ?? [];
  expect(kinds.slice(0, 5)).toEqual(["step-start", "text", "tool-search_tools", "step-start", "text"]);
  expect(kinds.length, "with sources").toBeGreaterThan(5);
  expect(new Set(kinds.slice(5))).toEqual(new Set(["source-url"]));
  expect(program.tools()).toMatchObject([
    { state: "output-available", providerExecuted: true, input: { query: "trim adapters", limit: 3 }, output: { tools: expect.any(Array) } },
  ]);
  expect(words(answer)).toMatch(/^Let me look\.Found: \{"tools":\[/);
  expect(await program.runs()).toBe(1);
  await expectSettled(program);
});

test("what a call is given comes in pieces, and two calls of one step both end", async ({ program }) => {
  await program.ask("sdk pieces");
  expect(program.tools()).toMatchObject([
    { state: "output-available", input: { ms: 40, text: "ä one" }, output: { echo: "ä one" } },
    { state: "output-available", input: { ms: 20, text: "two" }, output: { echo: "two" } },
  ]);
  const [post] = program.posts;
  const seen = post ? chunks(await post.wire) : [];
  expect(seen.filter(({ type }) => type === "tool-input-delta").length, "pieces").toBeGreaterThan(2);
  expect(await program.runs()).toBe(2);
  await expectSettled(program);
});

test("calls that cannot run, and one that fails, are errors that the model is told of", async ({ program }) => {
  await program.ask("sdk bad calls");
  expect(program.status).toBe("ready");
  expect(program.finished?.finishReason).toBe("stop");
  expect(program.tools().map((part) => [part.type, part.state, part.state === "output-error" && part.errorText])).toEqual([
    ["tool-test_slow", "output-error", expect.stringContaining("no JSON")],
    ["tool-fly", "output-error", expect.stringContaining('There is no tool "fly"')],
    ["tool-search_tools", "output-error", expect.stringContaining("do not fit")],
    ["tool-test_fail", "output-error", expect.stringContaining("failed on purpose")],
  ]);
  expect(words(program.messages[1])).toContain("failed on purpose");
  expect(await program.runs(), "only the one that could").toBe(1);
  await expectSettled(program);
});

test("a client that sends by itself is told in a notice that the last step was taken, and does not go on", async ({ open }) => {
  const program = open({ automatic: true });
  await program.ask("sdk loop");
  expect(program.messages[1]?.parts.at(-1)).toEqual({ type: "data-notice", data: { text: expect.stringContaining("all of its 10 steps") } });
  expect([program.posts.length, await program.runs()]).toEqual([1, 10]);
  await expectSettled(program);
  await program.ask("And now?");
  expect(words(program.messages.at(-1))).toBe("Quick answer.");
  await expectSettled(program);
});

test("steps are counted over all pauses of an answer", async ({ open }) => {
  const program = open({ automatic: true });
  await program.ask("sdk asking loop");
  while (program.asking[0] !== undefined) {
    const before = program.posts.length;
    await program.addToolApprovalResponse({ id: program.asking[0], approved: true });
    await program.when("it is answered", () => program.posts.length > before && program.status === "ready");
    expect(program.posts.length, "each answer is sent once").toBe(before + 1);
  }
  expect(program.messages[1]?.parts.at(-1)?.type).toBe("data-notice");
  expect([program.posts.length, await program.runs()]).toEqual([11, 10]);
  await expectSettled(program);
});

test("a tool that is stopped while it runs ends as an error", async ({ program }) => {
  const over = program.ask("sdk lengthy");
  await over;
  const decided = program.decide(true);
  await program.when("it runs", () => program.status === "streaming");
  expect((await program.stopAnswer()).ok).toBe(true);
  await decided;
  expect(program.status).toBe("ready");
  expect(program.finished?.finishReason).toBe("interrupted");
  expect(program.tools()).toMatchObject([{ state: "output-error", errorText: "Stopped by the user.", approval: { approved: true } }]);
  await expectSettled(program);
});

test("a list with calls in it can be loaded and gone on with", async ({ open, program }) => {
  for (const question of ["sdk search", "sdk bad calls"]) await program.ask(question);
  const again = open({ id: program.id, messages: await program.stored() });
  await expectValid(again.messages);
  await again.ask("And now?");
  expect(words(again.messages.at(-1))).toBe("Quick answer.");
  await expectSettled(again);
});
