import { expect, test } from "../fixtures";

const FAILURES = [
  { question: "cut please", says: "The connection to the model broke off. What came is kept.", keeps: "What came before the cable was cut is kept" },
  { question: "broken please", says: "The model's provider had a fault. Your question is kept.", keeps: null },
  { question: "empty please", says: "The model gave an empty answer. Your question is kept.", keeps: null },
];

for (const { question, says, keeps } of FAILURES) {
  test(`after "${question}" the turn says what happened and what is kept, and can be tried again`, async ({ user, chat }) => {
    await chat.open();
    const turn = await chat.ask(question);
    await turn.ends("failed");
    await expect(turn.notice).toContainText(says);
    if (keeps) await expect(turn.prose).toContainText(keeps);
    await expect(turn.root.locator(".waiting")).toBeHidden();
    const conversation = await chat.conversation();
    const [first] = await user.stored(conversation);

    await chat.reload();
    await expect(turn.prompt).toHaveText(question);
    await expect(turn.notice).toContainText(says);
    await turn.noticeRetry.click();
    await expect(turn.root).not.toHaveAttribute("id", `turn-${first?.id}`);
    await turn.ends("failed");
    await expect(chat.turns, "the attempt takes the place of the one before").toHaveCount(1);
    await expect(turn.prompt).toHaveText(question);
    const stored = await user.stored(conversation);
    expect(stored).toHaveLength(1);
    expect(stored[0]).toMatchObject({ attempt: 2, prompt: { text: question } });
  });
}

test("after a failure the conversation goes on, and only the last answer offers Retry", async ({ chat }) => {
  await chat.open();
  await (await chat.ask("cut please")).ends("failed");
  const next = await chat.ask("and now?");
  await next.ends();
  const failed = chat.turn(0);
  await expect(failed.notice).toBeVisible();
  await expect(failed.noticeRetry).toBeHidden();
  await expect(failed.retry).toBeHidden();
  await expect(next.retry).toBeVisible();
});

test("Retry under a good answer gives another one in its place", async ({ user, chat }) => {
  const conversation = await user.asked("first");
  await user.asked("second", conversation);
  await chat.open(conversation);
  const before = await chat.turn().root.getAttribute("id");
  await chat.turn().retry.click();
  await expect(chat.turn().root).not.toHaveAttribute("id", before ?? "");
  await chat.turn().ends();
  await expect(chat.turns).toHaveCount(2);
  await expect(chat.turn().prose).toHaveText("Quick answer.");
  await expect(chat.turn().root).toHaveAccessibleName("Turn 2");
});

test("a Retry that cannot be reached says so and leaves the turn as it is", async ({ page, user, guard, chat }) => {
  await chat.open(await user.asked("cut please"));
  guard.expect(/net::ERR_FAILED/);
  await page.route("**/api/fn/chat/retry", (route) => route.abort(), { times: 1 });
  await chat.turn().noticeRetry.click();
  await expect(chat.toasts).toContainText("The server could not be reached.");
  await expect(chat.turn().notice).toContainText("The connection to the model broke off.");
  await expect(chat.turn().noticeRetry).toBeEnabled();
});
