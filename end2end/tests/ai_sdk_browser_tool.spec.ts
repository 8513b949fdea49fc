import { answers, expectSettled, expectWaiting } from "../ai_sdk/checks";
import { tools, words } from "../ai_sdk/client";
import { expect, test } from "../ai_sdk/fixtures";

test("what a browser's tool gave reaches the model, whatever it is", async ({ open }) => {
  for (const output of [{ ran: "hier" }, "words", 0, false, null, [], { deep: [{ ä: "𝒢" }] }]) {
    const program = open();
    await program.ask("sdk browser");
    await expectWaiting(program);
    const [call] = program.tools();
    expect(call?.providerExecuted, "the client runs it").toBeUndefined();
    await program.addToolOutput({ tool: "test_client", toolCallId: String(call?.toolCallId), output: output as never });
    await program.goOn();
    expect(program.tools()).toMatchObject([{ state: "output-available", output }]);
    expect(words(program.messages[1])).toBe(`Result: ${JSON.stringify(output)}`);
    expect([program.finished?.finishReason, await program.runs()], "the server runs nothing").toEqual(["stop", 0]);
    await expectSettled(program);
  }
});

test("that a browser's tool failed reaches the model in its words", async ({ program }) => {
  await program.ask("sdk browser");
  const toolCallId = String(program.tools()[0]?.toolCallId);
  await program.addToolOutput({ tool: "test_client", toolCallId, state: "output-error", errorText: "The tab has no „clipboard“." });
  await program.goOn();
  expect(program.tools()).toMatchObject([{ state: "output-error", errorText: "The tab has no „clipboard“." }]);
  expect(words(program.messages[1])).toContain("The tab has no „clipboard“.");
  await expectSettled(program);
});

test("a client that sends by itself sends the output once", async ({ open }) => {
  const program = open({ automatic: true });
  await program.ask("sdk browser");
  await program.addToolOutput({ tool: "test_client", toolCallId: String(program.tools()[0]?.toolCallId), output: "done" as never });
  await program.when("it ended", () => program.posts.length === 2 && program.status === "ready");
  expect(words(program.messages[1])).toBe('Result: "done"');
  expect(program.posts).toHaveLength(2);
  await expectSettled(program);
});

test("of two tabs that ran the same call one is believed, and both end with its message", async ({ open }) => {
  for (const late of [false, true]) {
    const one = open();
    await one.ask("sdk browser");
    const two = open({ id: one.id, messages: await one.stored() });
    const send = async (tab: typeof one, output: string) => {
      await tab.addToolOutput({ tool: "test_client", toolCallId: String(tab.tools()[0]?.toolCallId), output: output as never });
      await tab.goOn();
    };
    if (late) await send(one, "one");
    await Promise.all([send(two, "two"), ...(late ? [] : [send(one, "one")])]);
    expect([one.status, two.status]).toEqual(["ready", "ready"]);
    expect(answers(two.messages)).toEqual(answers(one.messages));
    await expectSettled(one);
    await expectSettled(two);
  }
});

test("an output and a failure of the same call: the first one counts", async ({ open, program }) => {
  await program.ask("sdk browser");
  const toolCallId = String(program.tools()[0]?.toolCallId);
  const two = open({ id: program.id, messages: await program.stored() });
  await program.addToolOutput({ tool: "test_client", toolCallId, output: "first" as never });
  await program.goOn();
  await two.addToolOutput({ tool: "test_client", toolCallId, state: "output-error", errorText: "second" });
  await two.goOn();
  expect(two.tools()).toMatchObject([{ state: "output-available", output: "first" }]);
  await expectSettled(two);
});

test("an output that comes too late is not taken, and the client is told why", async ({ clock, open }) => {
  const program = open({}, clock.access);
  await program.ask("sdk browser");
  await clock.setForward(121);
  const toolCallId = String(program.tools()[0]?.toolCallId);
  await program.addToolOutput({ tool: "test_client", toolCallId, output: "late" as never });
  await program.goOn();
  expect([program.status, program.finished?.finishReason]).toEqual(["ready", "interrupted"]);
  expect(tools(program.messages[1])).toMatchObject([{ state: "output-error", errorText: "Nobody answered in time." }]);
  await expectSettled(program);
  await program.ask("And now?");
  await expectSettled(program);
});
