import { expect, test } from "../fixtures";

test("the end of a conversation is in view when it opens, and is followed while an answer streams", async ({ user, chat }) => {
  const conversation = await user.asked("tall please");
  await user.asked("tall please", conversation);
  await chat.open(conversation);
  await expect.poll(() => chat.below()).toBeLessThanOrEqual(1);
  await expect(chat.jump).toBeHidden();
  const turn = await chat.ask("slow please");
  for (const characters of [50, 200, 400]) {
    await chat.streams(turn, characters);
    await expect.poll(() => chat.below()).toBeLessThanOrEqual(1);
  }
  await turn.ends();
  await expect.poll(() => chat.below()).toBeLessThanOrEqual(1);
});

test("someone who has scrolled up is left there, and can jump to the latest", async ({ page, user, chat }) => {
  const conversation = await user.asked("tall please");
  await user.asked("tall please", conversation);
  await chat.open(conversation);
  const turn = await chat.ask("slow please");
  await chat.streams(turn);
  await chat.log.hover();
  await page.mouse.wheel(0, -400);
  await expect(chat.jump).toBeVisible();
  // The wheel may still be rolling out.
  const place = () => chat.log.evaluate((log) => log.scrollTop);
  let before = -1;
  await expect.poll(async () => {
    const last = before;
    before = await place();
    return before === last;
  }).toBe(true);
  const length = await turn.length();
  await chat.streams(turn, length + 100);
  expect(await place()).toBe(before);
  await chat.jump.click();
  await expect(chat.jump).toBeHidden();
  await expect.poll(() => chat.below()).toBeLessThanOrEqual(1);
  await chat.streams(turn, length + 150);
  await expect.poll(() => chat.below()).toBeLessThanOrEqual(1);
});

test("nothing on screen moves when an answer ends", async ({ chat }) => {
  await chat.open();
  const turn = await chat.ask("slow please");
  await chat.streams(turn, 450);
  const box = () => chat.composer.boundingBox();
  const [composer, head] = [await box(), await turn.root.locator(".answer-head").boundingBox()];
  await turn.ends();
  expect(await box()).toEqual(composer);
  expect((await turn.root.locator(".answer-head").boundingBox())?.x).toBe(head?.x);
});

test("a conversation of 200 turns opens with its last ones, and earlier ones come without a jump", async ({ page, user, chat }) => {
  test.setTimeout(60_000);
  const conversation = await user.asked("Question 1");
  for (let number = 2; number <= 200; number += 1) await user.asked(`Question ${number}`, conversation);
  await chat.open(conversation);
  await expect(chat.turns).toHaveCount(30);
  await expect(chat.turn().prompt).toHaveText("Question 200");
  await expect(chat.turn(0).root).toHaveAccessibleName("Turn 171");
  await expect.poll(() => chat.below()).toBeLessThanOrEqual(1);
  await expect(chat.item("Question 1").locator(".count")).toHaveText("200 turns");

  let first = 171;
  for (const count of [60, 90]) {
    const known = page.getByRole("article", { name: `Turn ${first}`, exact: true });
    await chat.earlier.scrollIntoViewIfNeeded();
    const before = (await known.boundingBox())?.y ?? 0;
    await chat.earlier.click();
    await expect(chat.turns).toHaveCount(count);
    await expect.poll(async () => Math.abs(((await known.boundingBox())?.y ?? 0) - before), { message: `turn ${first} keeps its place` }).toBeLessThan(80);
    first -= 30;
    await expect(chat.turn(0).prompt).toHaveText(`Question ${first}`);
  }
  const turn = await chat.ask("Question 201");
  await turn.ends();
  await expect(turn.root).toHaveAccessibleName("Turn 201");
});
