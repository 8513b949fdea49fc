import { answers, expectSettled, expectWaiting } from "../ai_sdk/checks";
import { type Chat, words } from "../ai_sdk/client";
import { expect, test } from "../ai_sdk/fixtures";
import { chunks } from "../ai_sdk/wire";

/** What the calls of the last answer came to. */
function states(chat: Chat): string[] {
  return chat.tools().map((part) => part.state);
}

test("nothing runs before it is allowed, and then the same message goes on", async ({ program }) => {
  await program.ask("sdk gated");
  await expectWaiting(program);
  expect([states(program), await program.runs()]).toEqual([["approval-requested"], 0]);
  const [, { id }] = program.messages as [unknown, { id: string }];
  await program.decide(true);
  expect(program.messages.map((message) => message.id).slice(1), "no second answer").toEqual([id]);
  expect(program.tools()).toMatchObject([{ state: "output-available", output: { echo: "hi" }, approval: { approved: true } }]);
  expect(words(program.messages[1])).toBe('May I?Result: {"echo":"hi"}');
  expect([program.finished?.finishReason, await program.runs()]).toEqual(["stop", 1]);
  await expectSettled(program);
});

test("a denial and its reason reach the model, and nothing runs", async ({ program }) => {
  await program.ask("sdk gated");
  await program.decide(false, { reason: "Not on a „Monday“" });
  expect(program.tools()).toMatchObject([{ state: "output-denied", approval: { approved: false, reason: "Not on a „Monday“" } }]);
  expect(words(program.messages[1])).toContain("Not on a „Monday“");
  expect(await program.runs()).toBe(0);
  await expectSettled(program);
});

test("a denial needs no reason", async ({ program }) => {
  await program.ask("sdk gated");
  await program.decide(false);
  expect([program.status, states(program), await program.runs()]).toEqual(["ready", ["output-denied"], 0]);
  await expectSettled(program);
});

test("a reason that comes with an allowance is the same for the client and in the store", async ({ program }) => {
  await program.ask("sdk gated");
  await program.decide(true, { reason: "Only this once" });
  expect([program.status, states(program), await program.runs()]).toEqual(["ready", ["output-available"], 1]);
  await expectSettled(program);
});

test("a client that sends by itself sends once, and only the answer if it is told so", async ({ open }) => {
  for (const opening of [{ automatic: true }, { automatic: true, lastOnly: true }]) {
    const program = open(opening);
    await program.ask("sdk gated");
    await expectWaiting(program);
    await program.addToolApprovalResponse({ id: String(program.asking[0]), approved: true });
    await program.when("it ended", () => states(program)[0] === "output-available" && program.status === "ready");
    expect([program.posts.length, await program.runs()]).toEqual([2, 1]);
    await expectSettled(program);
  }
});

test("an answer that is sent twice, and once more after the end, counts once", async ({ open, program }) => {
  await program.ask("sdk gated");
  const twin = open({ id: program.id, messages: await program.stored() });
  const late = open({ id: program.id, messages: await program.stored() });
  await Promise.all([program.decide(true), twin.decide(true)]);
  await late.decide(true);
  for (const tab of [program, twin, late]) {
    expect([tab.status, states(tab)]).toEqual(["ready", ["output-available"]]);
    await expectSettled(tab);
  }
  expect(await program.runs()).toBe(1);
});

test("of two tabs that answer differently one wins, and both end with its message", async ({ open }) => {
  const seen = new Set<string>();
  for (let round = 0; round < 8; round += 1) {
    const one = open();
    await one.ask("sdk gated");
    const two = open({ id: one.id, messages: await one.stored() });
    const tabs = [() => one.decide(true), () => two.decide(false)];
    await Promise.all((round % 2 ? tabs : tabs.reverse()).map((decide) => decide()));
    const [state = ""] = states(one);
    seen.add(state);
    expect([one.status, two.status, state === "output-available" ? 1 : 0]).toEqual(["ready", "ready", await one.runs()]);
    expect(answers(two.messages)).toEqual(answers(one.messages));
    await expectSettled(one);
    await expectSettled(two);
  }
  for (const state of seen) expect(["output-available", "output-denied"]).toContain(state);
});

test("who answers too late, and otherwise, ends with what was decided", async ({ open }) => {
  for (const first of [true, false]) {
    const one = open();
    await one.ask("sdk gated");
    const two = open({ id: one.id, messages: await one.stored() });
    await one.decide(first, first ? {} : { reason: "No" });
    await two.decide(!first, first ? { reason: "No" } : {});
    expect([two.status, states(two)]).toEqual(["ready", [first ? "output-available" : "output-denied"]]);
    expect(await one.runs()).toBe(first ? 1 : 0);
    await expectSettled(one);
    await expectSettled(two);
  }
});

test("two questions of one step are answered together", async ({ program }) => {
  await program.ask("sdk two gated");
  const [one, two] = program.asking;
  await program.addToolApprovalResponse({ id: String(one), approved: true });
  await program.decide(false, { id: two, reason: "Not this" });
  expect([states(program), await program.runs()]).toEqual([["output-available", "output-denied"], 1]);
  expect(words(program.messages[1])).toContain("Not this");
  await expectSettled(program);
});

test("two questions of one step are answered one by one", async ({ program }) => {
  await program.ask("sdk two gated");
  const [one, two] = program.asking;
  await program.decide(true, { id: two });
  await expectWaiting(program);
  expect([states(program), await program.runs()]).toEqual([["approval-requested", "output-available"], 1]);
  await program.decide(true, { id: one });
  expect([states(program), await program.runs()]).toEqual([["output-available", "output-available"], 2]);
  expect(program.finished?.finishReason).toBe("stop");
  await expectSettled(program);
});

test("a client that sends by itself waits until both questions of a step are answered", async ({ open }) => {
  const program = open({ automatic: true });
  await program.ask("sdk two gated");
  const [one, two] = program.asking;
  await program.addToolApprovalResponse({ id: String(one), approved: false });
  expect(program.posts).toHaveLength(1);
  await program.addToolApprovalResponse({ id: String(two), approved: true });
  await program.when("it ended", () => program.posts.length === 2 && program.status === "ready");
  expect([states(program), await program.runs()]).toEqual([["output-denied", "output-available"], 1]);
  await expectSettled(program);
});

test("a page that is loaded again while an allowed tool runs follows the whole answer under its own id", async ({ open, program }) => {
  await program.ask("sdk lengthy");
  const id = program.messages[1]?.id;
  const decided = program.decide(true);
  await program.when("it runs", () => program.status === "streaming");
  const loaded = open({ id: program.id, messages: await program.stored() });
  expect(states(loaded), "it still runs").toEqual(["approval-responded"]);
  const bare = open({ id: program.id });
  await Promise.all([loaded.resumeStream(), bare.resumeStream(), program.close(), decided]);
  for (const tab of [loaded, bare]) {
    expect([tab.status, tab.finished?.finishReason, tab.messages.at(-1)?.id]).toEqual(["ready", "stop", id]);
    const [get] = tab.calls;
    const types = get ? chunks(await get.wire).map(({ type }) => type) : [];
    for (const once of ["start", "text-start", "tool-input-available", "tool-approval-request", "tool-approval-response", "tool-output-available", "finish"]) {
      expect(types.filter((type) => type === once).length, `${once} in ${types.join()}`).toBe(once === "text-start" ? 2 : 1);
    }
  }
  expect(answers(bare.messages)).toEqual(answers(loaded.messages));
  expect(await loaded.runs()).toBe(1);
  await expectSettled(loaded);
});

test("a page that is loaded again during a pause can answer, and resuming it disturbs nothing", async ({ open, program }) => {
  await program.ask("sdk gated");
  await program.close();
  const tab = open({ id: program.id, messages: await program.stored() });
  const before = tab.messages;
  await tab.resumeStream();
  expect([tab.status, tab.messages]).toEqual(["ready", before]);
  await tab.decide(true);
  expect([states(tab), await tab.runs()]).toEqual([["output-available"], 1]);
  await expectSettled(tab);
});
