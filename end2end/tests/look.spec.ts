import type { Page } from "@playwright/test";

import { alive, expect, test } from "../fixtures";

const background = (page: Page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
/** Lightness from 0 to 255 of a colour in any notation. */
const lightness = (page: Page) =>
  page.evaluate(() => {
    const canvas = document.createElement("canvas").getContext("2d")!;
    canvas.fillStyle = getComputedStyle(document.querySelector("main")!).backgroundColor;
    canvas.fillRect(0, 0, 1, 1);
    const [r = 0, g = 0, b = 0] = canvas.getImageData(0, 0, 1, 1).data;
    return (r + g + b) / 3;
  });

test("the page follows the system's light or dark", async ({ page, user, chat }) => {
  await chat.open(await user.asked("hello"));
  await page.emulateMedia({ colorScheme: "light" });
  expect(await lightness(page)).toBeGreaterThan(200);
  await page.emulateMedia({ colorScheme: "dark" });
  expect(await lightness(page)).toBeLessThan(60);
});

test("a chosen theme wins over the system, on all pages, from the first paint, and is remembered", async ({ page, user, guard, chat }) => {
  await chat.open(await user.asked("hello"));
  await expect(chat.theme).toHaveAttribute("title", "Theme: system");
  await chat.theme.click();
  await expect(chat.theme).toHaveAttribute("title", "Theme: light");
  await chat.theme.click();
  await expect(chat.theme).toHaveAttribute("title", "Theme: dark");
  expect(await lightness(page)).toBeLessThan(60);
  guard.expect(/status of 404/);
  const dark = await background(page);
  for (const path of ["/chatgxy/new", "/account", "/nowhere"]) {
    await page.goto(path, { waitUntil: "commit" });
    await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
    expect(await background(page), path).toBe(dark);
  }
});

test.describe("at 320 pixels", () => {
  test.use({ viewport: { width: 320, height: 568 } });

  const overflow = (page: Page) =>
    page.evaluate(() => {
      const wide = [document.documentElement, document.body, ...document.querySelectorAll("main, .thread, .composer, .history-list, .rail")];
      return wide.filter((box) => box.scrollWidth > box.clientWidth).map((box) => `${box.tagName}.${box.className} ${box.scrollWidth} > ${box.clientWidth}`);
    });

  test("keys with long names neither widen the account page nor hide their button", async ({ page, account }) => {
    await account.open();
    await account.keyName.fill("a name of a key that is longer than this small screen is wide");
    expect((await account.keyName.boundingBox())!.width).toBeGreaterThan(200);
    await account.createKey.click();
    const remove = page.getByRole("button", { name: /^Delete key/ });
    await remove.scrollIntoViewIfNeeded();
    const box = (await remove.boundingBox())!;
    expect(box.x + box.width, "the button is on the screen").toBeLessThanOrEqual(320);
    expect(await page.locator(".table-scroll:has(.keys)").evaluate((scroll) => scroll.scrollLeft), "without scrolling to it").toBe(0);
    expect(await overflow(page)).toEqual([]);
  });

  test("a new conversation is read from its beginning", async ({ page, chat }) => {
    await chat.open();
    await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeInViewport();
  });

  test("no page scrolls sideways", async ({ page, user, context, guard, chat }) => {
    const title = `${"x".repeat(400)} showcase please`;
    const conversation = await user.asked(title);
    for (const question of ["cut please", "showcase please"]) await user.asked(question, conversation);
    for (const path of ["new", conversation]) {
      await chat.open(path);
      expect(await overflow(page), path).toEqual([]);
    }
    await chat.turn().bad.click();
    await expect(chat.turn().reason).toBeVisible();
    expect(await overflow(page)).toEqual([]);
    await chat.show.click();
    await expect(chat.history).toBeVisible();
    expect(await overflow(page)).toEqual([]);
    await page.goto("/account");
    await alive(page);
    expect(await overflow(page)).toEqual([]);
    await context.clearCookies();
    guard.expect(/status of 404/);
    for (const path of ["/login", "/register", "/nowhere"]) {
      await page.goto(path);
      expect(await overflow(page), path).toEqual([]);
    }
  });

  test("the chat can be used", async ({ page, chat }) => {
    await chat.open();
    await expect(chat.send).toBeInViewport({ ratio: 1 });
    const turn = await chat.ask("slow please");
    await chat.streams(turn);
    await expect(chat.stop).toBeInViewport({ ratio: 1 });
    await turn.ends();
    await expect(turn.copy).toBeInViewport();
    const navigation = page.getByRole("navigation", { name: "Main" });
    await navigation.getByRole("link", { name: "Account" }).click();
    await expect(page.getByRole("heading", { name: "Account", exact: true })).toBeVisible();
  });

  test("touch targets are large enough", async ({ page, user, chat }) => {
    await chat.open(await user.asked("showcase please"));
    await expect(chat.turn().copy).toBeVisible();
    const small = await page.evaluate(() =>
      [...document.querySelectorAll("button, a.icon-button, a.button, .rail-link, select")]
        .filter((control) => control.checkVisibility({ visibilityProperty: true }))
        .map((control) => ({ box: control.getBoundingClientRect(), control }))
        .filter(({ box }) => box.width < 24 || box.height < 24)
        .map(({ box, control }) => `${control.outerHTML.slice(0, 80)} ${box.width}×${box.height}`),
    );
    expect(small).toEqual([]);
  });
});

test("nothing moves for those who asked for less motion", async ({ page, chat }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await chat.open();
  const turn = await chat.ask("slow please");
  await chat.streams(turn);
  const moving = () => page.evaluate(() => document.getAnimations().filter((a) => a.playState === "running").map((a) => String((a as CSSAnimation).animationName ?? a.id)));
  expect(await moving()).toEqual([]);
  await chat.theme.click();
  expect(await moving()).toEqual([]);
});

test("a page that has not changed is laid out once: no jump while it comes to life", async ({ page, user, chat }) => {
  const conversation = await user.asked("showcase please");
  await page.addInitScript(() => {
    const shifts: number[] = [];
    Object.assign(window, { shifts });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) shifts.push((entry as unknown as { value: number }).value);
    }).observe({ type: "layout-shift", buffered: true });
  });
  await chat.open(conversation);
  await expect(page.getByRole("article").locator("time").first()).not.toContainText("UTC");
  const shifts = await page.evaluate(() => (window as unknown as { shifts: number[] }).shifts);
  expect(shifts.reduce((sum, value) => sum + value, 0)).toBeLessThan(0.05);
});

test("where nothing went wrong no empty box says so", async ({ page, user }) => {
  const conversation = await user.asked("hello");
  const boxes = page.locator("[role=alert], .form-done");
  for (const path of ["/chatgxy/new", `/chatgxy/${conversation}`, "/account"]) {
    await page.goto(path);
    await expect(page.getByRole("main")).toBeVisible();
    for (const box of await boxes.all()) await expect(box, path).toBeHidden();
  }
  await page.context().clearCookies();
  for (const path of ["/login", "/register"]) {
    await page.goto(path);
    await expect(page.getByRole("main")).toBeVisible();
    expect(await boxes.count(), path).toBeGreaterThan(0);
    for (const box of await boxes.all()) await expect(box, path).toBeHidden();
  }
});
