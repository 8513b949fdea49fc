import { expect, test } from "../fixtures";
import { ChatPage } from "../pages/ChatPage";

const titles = (chat: ChatPage) => chat.items.locator(".history-title");

test("the history lists the latest conversation first, with title, count of turns and time", async ({ user, chat }) => {
  const one = await user.asked("First   conversation\nover two lines");
  await user.asked("Second conversation");
  await user.asked("once more", one);
  await chat.open();
  await expect(titles(chat)).toHaveText(["First conversation over two lines", "Second conversation"]);
  await expect(chat.items.locator(".count")).toHaveText(["2 turns", "1 turn"]);
  await expect(chat.items.locator("time").first()).toHaveText("now");
  await expect(chat.history.getByRole("heading", { level: 3 })).toHaveText(["Today"]);

  await chat.follow("Second conversation");
  await expect(chat.item("Second conversation").getByRole("link")).toHaveAttribute("aria-current", "page");
  await chat.ask("it moves up");
  await expect(titles(chat)).toHaveText(["Second conversation", "First conversation over two lines"]);
  await expect(chat.items.locator(".count")).toHaveText(["2 turns", "2 turns"]);
});

test("opening ChatGXY goes to the latest conversation", async ({ page, user, chat }) => {
  await user.asked("older");
  const latest = await user.asked("latest");
  await page.goto("/chatgxy");
  await expect(page).toHaveURL(new RegExp(`${latest}$`));
  await expect(chat.turn().prompt).toHaveText("latest");
});

test("a new conversation appears in the list as soon as it is sent", async ({ user, chat }) => {
  await user.asked("older");
  await chat.open();
  await chat.ask("brand new");
  await expect(titles(chat)).toHaveText(["brand new", "older"]);
  await expect(chat.item("brand new")).toHaveAttribute("data-current", "true");
});

test("switching shows each conversation's own turns, in their order, also after a reload", async ({ page, user, chat }) => {
  const a = await user.asked("a1");
  for (const question of ["a2", "a3", "a4"]) await user.asked(question, a);
  const b = await user.asked("b1");
  await user.asked("b2", b);
  await chat.open(b);
  const prompts = chat.turns.locator(".prompt-text");
  await expect(prompts).toHaveText(["b1", "b2"]);
  await chat.follow("a1");
  await expect(prompts).toHaveText(["a1", "a2", "a3", "a4"]);
  await chat.ask("a5");
  await expect(prompts).toHaveText(["a1", "a2", "a3", "a4", "a5"]);
  await chat.follow("b1");
  await expect(prompts).toHaveText(["b1", "b2"]);
  await page.goBack();
  await expect(prompts).toHaveText(["a1", "a2", "a3", "a4", "a5"]);
  await chat.reload();
  await expect(prompts).toHaveText(["a1", "a2", "a3", "a4", "a5"]);
});

test("an answer goes on while another conversation is looked at", async ({ user, chat }) => {
  await user.asked("other");
  await chat.open();
  await chat.streams(await chat.ask("slow please"));
  await chat.follow("other");
  await expect(chat.turn().prose).toHaveText("Quick answer.");
  await expect(chat.send).toBeVisible();
  await (await chat.ask("in between")).ends();
  await chat.follow("slow please");
  await chat.turn().ends();
  await expect(chat.turns).toHaveCount(1);
  await expect(chat.turn().prose).toContainText("the end of this slow answer.");
});

const CALLS = [
  { call: "chat/send", act: (chat: ChatPage) => chat.composer.press("Enter") },
  { call: "chat/retry", act: (chat: ChatPage) => chat.turn().retry.click() },
  { call: "chat/feedback", act: (chat: ChatPage) => chat.turn().good.click() },
  { call: "chat/conversation", act: (chat: ChatPage) => chat.earlier.click() },
  { call: "chat/conversation", act: (chat: ChatPage) => chat.page.evaluate(() => void document.dispatchEvent(new Event("visibilitychange"))) },
  { call: "chat/delete", act: (chat: ChatPage) => chat.delete("long") },
];

for (const [number, { call, act }] of CALLS.entries()) {
  test(`leaving a conversation before the server has answered ${call} breaks nothing (${number + 1})`, async ({ page, user, chat }) => {
    await user.asked("other");
    const long = await user.asked("long");
    for (let turn = 2; turn <= 32; turn += 1) await user.asked("again", long);
    await chat.open(long);
    await chat.composer.fill("sent while leaving");
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const asked = page.waitForRequest(`**/api/fn/${call}`);
    // Only the first one waits: going to the other conversation needs the same call.
    await page.route(`**/api/fn/${call}`, async (route) => {
      await held;
      await route.continue();
    }, { times: 1 });
    await act(chat);
    const answered = (await asked).response();
    await chat.follow("other");
    release();
    await answered;
    await (await chat.ask("still alive?")).ends();
    await expect(chat.turns).toHaveCount(2);
    await chat.reload();
    await expect(chat.turns.locator(".prompt-text")).toHaveText(["other", "still alive?"]);
  });
}

test("a question that was sent while leaving its conversation is there later, and not in the composer", async ({ page, user, chat }) => {
  await user.asked("other");
  await chat.open(await user.asked("here"));
  for (const leave of ["here", "new"]) {
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route("**/api/fn/chat/send", async (route) => {
      await held;
      await route.continue();
    }, { times: 1 });
    if (leave === "new") await chat.new.click();
    await chat.composer.fill(`sent from ${leave}`);
    const sent = page.waitForRequest("**/api/fn/chat/send");
    await chat.composer.press("Enter");
    const answered = (await sent).response();
    await chat.follow("other");
    release();
    await answered;
    await expect(chat.item(leave === "new" ? "sent from new" : "here")).toContainText(leave === "new" ? "1 turn" : "2 turns");
    await expect(chat.title, "nobody is taken elsewhere").toHaveText("other");
  }
  await chat.follow("here");
  await expect(chat.turn().prompt).toHaveText("sent from here");
  await expect(chat.composer).toHaveValue("");
  await chat.new.click();
  await expect(chat.title).toHaveText("New conversation");
  await expect(chat.composer).toHaveValue("");
});

test("a deleted conversation is gone at once, and Undo brings it back", async ({ page, user, chat }) => {
  await user.asked("keep me");
  const doomed = await user.asked("delete me");
  await chat.open(doomed);
  await chat.delete("delete me");
  await expect(titles(chat)).toHaveText(["keep me"]);
  await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeVisible();
  await expect(chat.toasts).toContainText("Conversation deleted");
  await chat.undo.click();
  await expect(titles(chat)).toHaveText(["delete me", "keep me"]);
  await expect(page, "back to where one was").toHaveURL(new RegExp(`${doomed}$`));
  await expect(chat.turn().prose).toHaveText("Quick answer.");
});

test("a deleted conversation is deleted after a reload and in other tabs too", async ({ page, user, context, guard, chat }) => {
  const kept = await user.asked("keep me");
  const doomed = await user.asked("delete me");
  await chat.open(kept);
  const other = await new ChatPage(await context.newPage()).open(kept);
  await chat.delete("delete me");
  await expect(titles(other)).toHaveText(["keep me"]);
  await expect(chat.turns, "the conversation on screen stays").toHaveCount(1);
  await chat.reload();
  await expect(titles(chat)).toHaveText(["keep me"]);
  guard.expect(/status of 404/);
  expect((await page.goto(`/chatgxy/${doomed}`))?.status()).toBe(404);
});

test("clearing the history asks first, and can be undone", async ({ page, user, chat }) => {
  await user.asked("one");
  await user.asked("two");
  await chat.open(await user.asked("three"));
  await chat.clear.click();
  await expect(chat.dialog).toContainText("All your conversations are deleted");
  await chat.dialog.getByRole("button", { name: "Cancel" }).click();
  await expect(chat.dialog).toBeHidden();
  await expect(titles(chat)).toHaveCount(3);

  await chat.clear.click();
  await chat.dialog.getByRole("button", { name: "Clear history" }).click();
  await expect(titles(chat)).toHaveCount(0);
  await expect(chat.history).toContainText("No conversations yet.");
  await expect(chat.clear).toBeHidden();
  await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeVisible();
  await expect(chat.toasts).toContainText("History cleared");
  await chat.undo.click();
  await expect(titles(chat)).toHaveText(["three", "two", "one"]);
});

test("a deletion that the server did not hear of is said, and nothing disappears", async ({ page, user, guard, chat }) => {
  await chat.open(await user.asked("delete me"));
  guard.expect(/net::ERR_FAILED/);
  await page.route("**/api/fn/chat/delete", (route) => route.abort(), { times: 1 });
  await chat.delete("delete me");
  await expect(chat.toasts).toContainText("The server could not be reached.");
  await expect(titles(chat)).toHaveText(["delete me"]);
});

test("the history loads fifty conversations, and more on scroll", async ({ user, chat }) => {
  for (let number = 1; number <= 60; number += 1) await user.asked(`Number ${number}`);
  await chat.open();
  await expect(chat.items).toHaveCount(50);
  await expect(titles(chat).first()).toHaveText("Number 60");
  await chat.history.locator(".history-list").evaluate((list) => list.scrollTo(0, list.scrollHeight));
  await expect(chat.items).toHaveCount(60);
  await expect(titles(chat).last()).toHaveText("Number 1");
  await expect(chat.history.getByRole("button", { name: "Show older" })).toBeHidden();
  await chat.ask("Number 61");
  await expect(chat.items).toHaveCount(61);
  expect(new Set(await titles(chat).allTextContents()).size).toBe(61);
});

test("the history can be hidden, and that is remembered", async ({ user, chat }) => {
  await chat.open(await user.asked("hello"));
  await expect(chat.history).toBeVisible();
  expect((await chat.history.boundingBox())?.width).toBe(280);
  await chat.hide.click();
  await expect(chat.history).toBeHidden();
  await chat.reload();
  await expect(chat.history).toBeHidden();
  await chat.show.click();
  await expect(chat.history).toBeVisible();
  await chat.reload();
  await expect(chat.history).toBeVisible();
});

test("on a narrow window the history is a sheet that a choice, Esc or a click beside it closes", async ({ page, user, chat }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await user.asked("one");
  await chat.open(await user.asked("two"));
  await expect(chat.history).toBeHidden();
  await chat.show.click();
  await expect(chat.history).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(chat.history).toBeHidden();
  await expect(chat.show).toBeFocused();
  await chat.show.click();
  await chat.follow("one");
  await expect(chat.history).toBeHidden();
  await chat.show.click();
  await page.mouse.click(385, 400);
  await expect(chat.history).toBeHidden();
});

test("conversations are grouped by the days of the reader's own calendar", async ({ user, context, device }) => {
  await user.asked("hello");
  const asked = Date.now();
  // The next midnight of a place fourteen hours ahead of Greenwich.
  const ahead = 14 * 3_600_000;
  const midnight = (Math.floor((asked + ahead) / 86_400_000) + 1) * 86_400_000 - ahead;
  const day = 86_400_000;
  const cases = [
    [Math.max(asked, midnight - 60_000), "Today"],
    [midnight + 60_000, "Yesterday"],
    [midnight + 3 * day, "Previous 7 days"],
    [midnight + 10 * day, "Previous 30 days"],
    [midnight + 60 * day, "Older"],
  ] as const;
  const there = await device({ timezoneId: "Pacific/Kiritimati", storageState: await context.storageState() });
  for (const [now, group] of cases) {
    const page = await there.newPage();
    await page.clock.setFixedTime(now);
    const chat = await new ChatPage(page).open();
    await expect(chat.history.getByRole("heading", { level: 3 }), new Date(now).toISOString()).toHaveText([group]);
    await page.close();
  }
});
