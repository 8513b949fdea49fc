import { expectRefused, expectSettled, outline } from "../ai_sdk/checks";
import { type Access, call, words } from "../ai_sdk/client";
import { expect, test } from "../ai_sdk/fixtures";

const CLIENT_ERROR: [number, number] = [400, 499];

function asked(text: unknown, id: unknown = "q"): Record<string, unknown> {
  return { id, role: "user", parts: [{ type: "text", text }] };
}

async function history(access: Access): Promise<unknown> {
  return (await call(access, "GET", "/api/chat/history")).json();
}

const post = (access: Access, body: unknown, headers?: Record<string, string>) => call(access, "POST", "/api/chat", body, headers);

test("someone else's chat is not there, in any way, and stays as it is", async ({ stranger, open, program }) => {
  const turn = await program.begin("A steady one, please");
  const theirs = open({ id: program.id }, stranger);
  await expectRefused(await theirs.request("GET", "messages"), 404);
  await expectRefused(await theirs.request("GET", "stream"), 404);
  await expectRefused(await theirs.request("POST", "stop"), 404);
  await expectRefused(await post(stranger, { id: program.id, messages: [asked("Mine now?")], trigger: "submit-message" }), 404);
  const [question] = program.messages;
  for (const trigger of ["submit-message", "regenerate-message"]) {
    const body = { id: program.id, messages: [question], trigger, messageId: question?.id };
    await expectRefused(await post(stranger, body), 404, trigger);
  }
  await theirs.resumeStream();
  expect([theirs.status, theirs.messages]).toEqual(["error", []]);
  await turn.over;
  expect(program.status).toBe("ready");
  expect(words(program.messages[1])).toMatch(/until the steady end\.$/);
  await expectSettled(program);
  expect(await history(stranger)).toEqual([]);
});

test("the same message id in two people's chats are two questions", async ({ open, stranger }) => {
  const mine = open();
  const theirs = open({}, stranger);
  for (const chat of [mine, theirs]) await chat.sendMessage({ id: "same-id", role: "user", parts: [{ type: "text", text: `In ${chat.id}` }] });
  for (const chat of [mine, theirs]) {
    expect(chat.messages.map(words)).toEqual([`In ${chat.id}`, "Quick answer."]);
    await expectSettled(chat);
  }
});

test("a chat that does not exist has no messages and nothing to stop", async ({ access }) => {
  await expectRefused(await call(access, "GET", "/api/chat/not-there/messages"), 404);
  await expectRefused(await call(access, "POST", "/api/chat/not-there/stop"), 404);
});

test("without a key, or with a wrong one, everything is refused with 401", async ({ access, program }) => {
  await program.ask("A quick one");
  const message = asked("Who am I?");
  for (const headers of [{ "x-api-key": "chatgxy_wrong" }, { "x-api-key": "" }]) {
    await expectRefused(await post(access, { id: program.id, message }, headers), 401);
    for (const [method, what] of [["GET", "messages"], ["GET", "stream"], ["POST", "stop"]] as const) {
      await expectRefused(await call(access, method, `/api/chat/${program.id}/${what}`, undefined, headers), 401, what);
    }
  }
  const bare = await fetch(`${access.url}/api/chat/${program.id}/messages`);
  await expectRefused(bare, 401);
  await expectSettled(program);
});

test("garbage is refused in words, and nothing of it is stored", async ({ access }) => {
  const message = asked("Fine by itself");
  const whole: unknown[] = [[], [1, 2], [message], 1, true, null, {}, "text"];
  const ids: unknown[] = [1, null, {}, []].map((id) => ({ id, messages: [message] }));
  const lists: unknown[] = [null, 1, "text", {}, [], [null], [1], ["text"], [[message]], [[]]].map((messages) => ({ id: "x", messages }));
  const singles: unknown[] = [null, 1, "text", [], [message], {}].map((message) => ({ id: "x", message }));
  const messages: unknown[] = [
    { ...message, role: "assistant" },
    { ...message, role: "system" },
    { ...message, role: "tool" },
    { ...message, role: 1 },
    { id: "q", parts: message.parts },
    { id: "q", role: "user", content: "an older shape" },
    ...[null, 1, "text", {}, [], [null], [1], [[]], [{}], [{ type: 1 }], [{ type: "text" }], [{ type: "step-start" }]].map((parts) => ({ ...message, parts })),
    asked(null),
    asked(1),
    asked({}),
    asked(""),
    asked(" \n\t "),
    asked("\0"),
  ];
  const wrapped = messages.flatMap((message) => [{ id: "x", messages: [message] }, { id: "x", message }]);
  const rest: unknown[] = [
    { id: "x", messages: [message], trigger: "explode" },
    { id: "x", messages: [message], trigger: 1 },
    { id: "x", messages: [message], trigger: "submit-message", messageId: {} },
    { id: "x", messages: [message], trigger: "regenerate-message", messageId: 1 },
    { messages: [message] },
    { query: 1 },
    { query: { id: "x" } },
  ];
  // JSON as text, so that a bare string is not taken for the body itself.
  for (const body of [...whole, ...ids, ...lists, ...singles, ...wrapped, ...rest]) {
    await expectRefused(await post(access, JSON.stringify(body)), 400, JSON.stringify(body));
  }
  expect(await history(access)).toEqual([]);
});

test("bytes that are no JSON, and JSON without end, are refused in words", async ({ access }) => {
  const message = JSON.stringify(asked("Fine by itself"));
  const bodies: (string | Uint8Array)[] = [
    "",
    "{",
    `{"id":"x","messages":[${message}]`,
    `{"id":"x","messages":[${message}]} trailing`,
    `{"id":"x","message":${message.replace("Fine", "\\ud800")}}`,
    new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
    new Uint8Array(Buffer.from(`{"id":"x","message":${message.replace("Fine", "\u00ff")}}`, "latin1")),
    "[".repeat(100_000),
    `{"id":"x","messages":${"[".repeat(5_000)}${"]".repeat(5_000)}}`,
    `{"id":"x","message":${'{"parts":'.repeat(5_000)}1${"}".repeat(5_000)}}`,
  ];
  for (const body of bodies) {
    const shown = Buffer.from(body).toString("latin1").slice(0, 60);
    await expectRefused(await post(access, body), CLIENT_ERROR, shown);
  }
  await expectRefused(await post(access, "query=as+a+form", { "content-type": "application/x-www-form-urlencoded" }), CLIENT_ERROR);
  expect(await history(access)).toEqual([]);
});

test("what is too large is refused by its size, whatever it is", async ({ access }) => {
  const long = "word ".repeat(50_000);
  expect(await expectRefused(await post(access, { id: "x", message: asked(long) }), 400)).toContain("too long");
  // Several times: a server that hangs up on a client that is still sending is heard only now and then.
  const huge = Array.from({ length: 8 }, () => post(access, { id: "x", message: asked(long.repeat(10)) }));
  for (const response of await Promise.all(huge)) await expectRefused(response, 413);
  expect(await history(access)).toEqual([]);
});

test("a long list of earlier messages is no hindrance", async ({ access }) => {
  const earlier = Array.from({ length: 2_000 }, (_, place) => ({ ...asked("An earlier message", `earlier-${place}`), role: place % 2 ? "assistant" : "user" }));
  const response = await post(access, { id: "long-list", messages: [...earlier, asked("The last one")] });
  expect(response.status).toBe(200);
  await response.text();
  expect(await (await call(access, "GET", "/api/chat/long-list/messages")).json()).toHaveLength(2);
});

test("ids of letters, digits, - and _ up to 64 are taken for chats and for questions", async ({ open }) => {
  for (const id of ["x", "A1b2C3d4E5f6G7h8", "0198c7e2-7d1a-7cc3-8e3f-2f1d5b0c9a11", "under_score-and-dash_", "z".repeat(64)]) {
    const chat = open({ id });
    await chat.sendMessage({ id, role: "user", parts: [{ type: "text", text: "Under this name" }] });
    expect(chat.status, id).toBe("ready");
    expect((await chat.stored())[0]?.id).toBe(id);
    await expectSettled(chat);
  }
});

test("other ids are refused, for a chat at every address, for a question when it is asked", async ({ access }) => {
  const odd = ["", " ", "a b", "a/b", "../x", "..", "a.b", "ä", "🧬", "a\0b", "a\nb", "a%00b", "'; drop table x", "<script>", "z".repeat(65), "z".repeat(5_000)];
  for (const id of odd) {
    const shown = JSON.stringify(id).slice(0, 40);
    await expectRefused(await post(access, { id: "fine", message: asked("Fine by itself", id) }), 400, `question ${shown}`);
    await expectRefused(await post(access, { id, message: asked("Fine by itself") }), 400, `chat ${shown}`);
    if (["", ".."].includes(id)) continue;
    const path = `/api/chat/${encodeURIComponent(id)}`;
    await expectRefused(await call(access, "GET", `${path}/messages`), CLIENT_ERROR, `messages ${shown}`);
    await expectRefused(await call(access, "POST", `${path}/stop`), CLIENT_ERROR, `stop ${shown}`);
    const stream = await call(access, "GET", `${path}/stream`);
    if (stream.status !== 204) await expectRefused(stream, CLIENT_ERROR, `stream ${shown}`);
  }
  // A page has this name, and numbers are given by the server.
  for (const id of ["new", "123456789", "-1"]) await expectRefused(await post(access, { id, message: asked("Fine by itself") }), [400, 404], id);
  expect(await history(access)).toEqual([]);
});

test("a refused request leaves the client's list as it was, and the next question works", async ({ program }) => {
  await program.ask(" ");
  expect(program.status).toBe("error");
  expect(JSON.parse(program.error?.message ?? "")).toMatchObject({ err_code: 400_008 });
  program.messages = [];
  program.clearError();
  await program.ask("A quick one");
  expect(outline(program.messages).map(([, , said]) => said)).toEqual(["A quick one", "Quick answer."]);
  await expectSettled(program);
});
