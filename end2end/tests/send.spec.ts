import { randomUUID } from "node:crypto";

import { expect, test } from "../fixtures";
import { ChatPage } from "../pages/ChatPage";

const SEND = "**/api/fn/chat/send";
/** What the browser itself says of a request that the test breaks. */
const BROKEN = /Failed to load resource: net::ERR_FAILED.*chat\/send/;

test("an empty chat greets and offers four questions, each of which fills the composer", async ({ page, chat }) => {
  await chat.open();
  await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeVisible();
  await expect(chat.examples).toHaveCount(4);
  for (const example of await chat.examples.all()) {
    await example.click();
    await expect(chat.composer).toHaveValue((await example.textContent()) ?? "?");
    await expect(chat.composer).toBeFocused();
  }
  await expect(chat.turns).toHaveCount(0);
});

test("Enter sends, the answer comes, and the conversation has an address of its own", async ({ page, user, chat }) => {
  await chat.open();
  const turn = await chat.ask("A first question");
  await turn.ends();
  await expect(turn.prose).toHaveText("Quick answer.");
  await expect(chat.title).toHaveText("A first question");
  await expect(page).toHaveTitle("A first question · ChatGXY");
  await expect(chat.composer).toHaveValue("");
  await expect(chat.composer).toBeFocused();
  expect(await user.answers(await chat.conversation())).toEqual(["Quick answer."]);
});

test("the Send button sends too", async ({ chat }) => {
  await chat.open();
  await chat.composer.fill("By mouse");
  await chat.send.click();
  await expect(chat.turn().prose).toHaveText("Quick answer.");
});

test("Shift+Enter begins a new line, which the question keeps", async ({ chat }) => {
  await chat.open();
  await chat.composer.pressSequentially("first line");
  await chat.composer.press("Shift+Enter");
  await chat.composer.pressSequentially("second line");
  await expect(chat.composer).toHaveValue("first line\nsecond line");
  await chat.composer.press("Enter");
  await expect(chat.turn().prompt).toHaveText("first line\nsecond line", { useInnerText: true });
});

test("nothing is sent when there is nothing but space", async ({ chat }) => {
  await chat.open();
  await chat.composer.fill("  \n ");
  await chat.composer.press("Enter");
  await chat.composer.fill("words");
  await chat.composer.press("Enter");
  await expect(chat.turn().prompt).toHaveText("words");
  await expect(chat.turns).toHaveCount(1);
});

test("pressing Enter twice sends once", async ({ page, user, chat }) => {
  await chat.open();
  await chat.composer.fill("only once");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await chat.turn().ends();
  await chat.reload();
  await expect(chat.turns).toHaveCount(1);
  expect(await user.answers(await chat.conversation())).toHaveLength(1);
});

test("the same words twice are two questions", async ({ chat }) => {
  await chat.open();
  await (await chat.ask("yes")).ends();
  await chat.composer.fill("yes");
  await chat.composer.press("Enter");
  await expect(chat.turns).toHaveCount(2);
  await chat.turn().ends();
  await chat.reload();
  await expect(chat.turns).toHaveCount(2);
});

test("Enter that confirms an input method's text does not send, the next one does", async ({ page, chat }) => {
  await chat.open();
  const input = await page.context().newCDPSession(page);
  await chat.composer.focus();
  await input.send("Input.imeSetComposition", { text: "にほん", selectionStart: 3, selectionEnd: 3 });
  await expect(chat.composer).toHaveValue("にほん");
  const press = (isComposing: boolean) =>
    chat.composer.evaluate((area, composing) => {
      const enter = { key: "Enter", code: "Enter", keyCode: 229, isComposing: composing, bubbles: true, cancelable: true };
      return area.dispatchEvent(new KeyboardEvent("keydown", enter));
    }, isComposing);
  // While composing, as Chromium and Firefox say it.
  expect(await press(true), "the key keeps its meaning").toBe(true);
  await input.send("Input.insertText", { text: "日本" });
  await expect(chat.composer).toHaveValue("日本");
  // After the composition has ended, as Safari says it.
  expect(await press(false), "the key keeps its meaning").toBe(true);
  await expect(chat.turns).toHaveCount(0);
  await expect(chat.composer).toHaveValue("日本");
  await chat.composer.press("Enter");
  await expect(chat.turn().prompt).toHaveText("日本");
  await expect(chat.turns).toHaveCount(1);
});

test("a question that could not be sent stays in the composer, and says so", async ({ page, user, guard, chat }) => {
  await chat.open();
  guard.expect(BROKEN);
  await page.route(SEND, (route) => route.abort(), { times: 1 });
  await chat.composer.fill("Do not lose me");
  await chat.composer.press("Enter");
  await expect(chat.error).toContainText("Not sent");
  await expect(chat.error).toContainText("Your text is still here.");
  await expect(chat.composer).toHaveValue("Do not lose me");
  await expect(chat.turns).toHaveCount(0);

  await chat.composer.press("Enter");
  await chat.turn().ends();
  await expect(chat.error).toHaveText("");
  await expect(chat.composer).toHaveValue("");
  expect(await user.stored(await chat.conversation())).toHaveLength(1);
});

test("sent again after only the server's word was lost, a question makes one turn", async ({ page, user, guard, chat }) => {
  const conversation = await user.asked("before");
  await chat.open(conversation);
  guard.expect(BROKEN);
  await page.route(SEND, async (route) => {
    await route.fetch();
    await route.abort();
  }, { times: 1 });
  await chat.composer.fill("Exactly once");
  await chat.composer.press("Enter");
  await expect(chat.error).toContainText("Not sent");
  await expect(chat.composer).toHaveValue("Exactly once");
  await chat.composer.press("Enter");
  await expect(chat.turns).toHaveCount(2);
  await chat.turn().ends();
  await expect(chat.composer).toHaveValue("");
  expect((await user.stored(conversation)).map((turn) => turn.prompt.text)).toEqual(["before", "Exactly once"]);
});

test("what is typed while the question is on its way stays, also in a new conversation", async ({ page, user, chat }) => {
  for (const conversation of [await user.asked("before"), "new"]) {
    await chat.open(conversation);
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route(SEND, async (route) => {
      await held;
      await route.continue();
    }, { times: 1 });
    await chat.composer.fill("A question");
    await chat.composer.press("Enter");
    await chat.composer.fill("A question, and one more");
    release();
    await expect(chat.turn().prompt).toHaveText("A question");
    await chat.turn().ends();
    await expect(chat.composer, conversation).toHaveValue("A question, and one more");
  }
});

test("one can type while an answer streams, and what was typed waits for its end", async ({ chat }) => {
  await chat.open();
  const turn = await chat.ask("slow please");
  await chat.streams(turn);
  await expect(chat.composer).toBeEditable();
  await chat.composer.pressSequentially("and then?");
  await expect(chat.stop).toBeVisible();
  await expect(chat.send).toBeHidden();
  await chat.composer.press("Enter");
  await expect(chat.error).toContainText("An answer is still being written.");
  await expect(chat.turns).toHaveCount(1);
  await turn.ends();
  await expect(chat.composer).toHaveValue("and then?");
  await expect(chat.send).toBeVisible();
  await chat.composer.press("Enter");
  await expect(chat.turn().prompt).toHaveText("and then?");
  await expect(chat.turns).toHaveCount(2);
});

test("the unsent text of each conversation stays with it, on switching and on reload", async ({ page, user, chat }) => {
  await user.asked("one");
  const two = await user.asked("two");
  await chat.open(two);
  await chat.composer.fill("draft for two");
  await chat.follow("one");
  await expect(chat.composer).toHaveValue("");
  await chat.composer.fill("draft for one");
  await chat.new.click();
  await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeVisible();
  await expect(chat.composer).toHaveValue("");
  await chat.composer.fill("draft for a new one");
  await chat.follow("two");
  await expect(chat.composer).toHaveValue("draft for two");
  await chat.reload();
  await expect(chat.composer).toHaveValue("draft for two");
  await chat.follow("one");
  await expect(chat.composer).toHaveValue("draft for one");
  await chat.composer.press("Enter");
  await expect(chat.turn().prompt).toHaveText("draft for one");
  await expect(chat.composer).toHaveValue("");
  await chat.follow("two");
  await expect(chat.turns).toHaveCount(1);
  await expect(chat.composer).toHaveValue("draft for two");
  await chat.new.click();
  await expect(chat.composer).toHaveValue("draft for a new one");
});

test("what is typed before the page is alive is kept", async ({ page, chat }) => {
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/*.wasm", async (route) => {
    await held;
    await route.continue();
  });
  await page.goto("/chatgxy/new", { waitUntil: "commit" });
  await chat.composer.fill("early bird");
  release();
  await chat.ready();
  await expect(chat.composer).toHaveValue("early bird");
  await chat.composer.press("Enter");
  await expect(chat.turn().prompt).toHaveText("early bird");
});

test("the composer grows with the text, up to a limit", async ({ chat }) => {
  await chat.open();
  const height = async () => (await chat.composer.boundingBox())?.height ?? 0;
  const one = await height();
  await chat.composer.fill("a\n".repeat(5));
  await expect.poll(height).toBeGreaterThan(one * 2);
  await chat.composer.fill("a\n".repeat(200));
  expect(await height()).toBeLessThan(500);
  await expect(chat.send).toBeInViewport();
});

test("the picker offers auto first, and the chosen agent answers", async ({ user, chat }) => {
  await chat.open();
  await expect(chat.agent).toHaveValue("auto");
  await expect(chat.agent.getByRole("option").first()).toHaveText("Auto");
  await chat.agent.selectOption({ label: "Router" });
  const turn = await chat.ask("who are you?");
  await turn.ends();
  await expect(turn.root.locator(".agent-name")).toHaveText("Router");
  const [stored] = await user.stored(await chat.conversation());
  expect(stored).toMatchObject({ asked: "router" });
});

test("offline, a bar says so, and the text is sent when the browser is back", async ({ context, guard, chat }) => {
  await chat.open();
  guard.expect(/net::ERR_INTERNET_DISCONNECTED/);
  await context.setOffline(true);
  await expect(chat.offline).toContainText("You are offline.");
  await chat.composer.fill("from the train");
  await chat.composer.press("Enter");
  await expect(chat.error).toContainText("Not sent");
  await expect(chat.composer).toHaveValue("from the train");
  await context.setOffline(false);
  await expect(chat.offline).toHaveText("");
  await chat.composer.press("Enter");
  await expect(chat.turn().prompt).toHaveText("from the train");
});

test("a question that is too long is refused in words, and stays", async ({ guard, chat }) => {
  await chat.open();
  guard.expect(/status of 400/);
  const text = "too long ".repeat(23_000).trim();
  await chat.composer.fill(text);
  await chat.composer.press("Enter");
  await expect(chat.error).toContainText("too long");
  await expect(chat.composer).toHaveValue(text);
});

test("a conversation that is not there, or someone else's, is a friendly 404", async ({ page, user, device, guard, server }) => {
  const conversation = await user.asked("mine");
  const context = await device();
  await context.request.post(`${server.url}/api/fn/account/register`, { form: { email: `${randomUUID()}@example.org`, password: "another battery" } });
  const other = await context.newPage();
  guard.expect(/Failed to load resource: the server responded with a status of 404/);
  for (const name of [conversation, randomUUID(), "7"]) {
    const response = await other.goto(`/chatgxy/${name}`);
    expect(response?.status()).toBe(404);
    await expect(other.getByRole("heading", { name: "This conversation is not here" })).toBeVisible();
    await expect(other.getByText("mine")).toHaveCount(0);
  }
  await other.getByRole("link", { name: "Go to conversations" }).click();
  await new ChatPage(other).ready();
  const missing = await page.goto("/nowhere");
  expect(missing?.status()).toBe(404);
  await expect(page.getByRole("heading", { name: "There is no such page" })).toBeVisible();
});
