import type { Page } from "@playwright/test";

import { expect, test } from "../fixtures";

/** Role and name of what has the focus, short. */
async function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const element = document.activeElement;
    const label = (element as HTMLInputElement | null)?.labels?.[0]?.querySelector("span")?.textContent;
    const name = element?.getAttribute("aria-label") ?? label ?? element?.getAttribute("title") ?? element?.textContent ?? "";
    return `${element?.tagName.toLowerCase() ?? ""} ${name.trim().replaceAll(/\s+/g, " ")}`;
  });
}

async function tabs(page: Page, count: number, key = "Tab"): Promise<string[]> {
  const seen: string[] = [];
  for (let step = 0; step < count; step += 1) {
    await page.keyboard.press(key);
    seen.push(await focused(page));
  }
  return seen;
}

test("Tab goes through the page in the order in which it is read", async ({ page, user, chat }) => {
  await user.asked("one");
  await chat.open(await user.asked("two"));
  await expect(chat.composer, "one can type at once").toBeFocused();
  await page.getByRole("link", { name: "Skip to content" }).focus();
  expect(await tabs(page, 13)).toEqual([
    "a ChatGXY",
    "a Chat",
    "a Account",
    "button Theme: system",
    "a New",
    "a Hide conversations",
    "a two",
    "button Delete conversation: two",
    "a one",
    "button Delete conversation: one",
    "button Clear history",
    "div Conversation",
    "button Copy answer",
  ]);
  expect(await tabs(page, 6)).toEqual(["button Good answer", "button Bad answer", "button Retry", "textarea Message", "select Agent", "button Send"]);
});

test("the first link of the page skips to the content", async ({ page, user, chat }) => {
  await chat.open(await user.asked("hello"));
  const skip = page.getByRole("link", { name: "Skip to content" });
  await skip.focus();
  await expect(skip).toBeInViewport();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();
});

test("the whole story works without a mouse", async ({ page, user, chat }) => {
  await user.asked("an older one");
  await chat.open();
  await expect(chat.composer).toBeFocused();
  await page.keyboard.type("endless please");
  await page.keyboard.press("Enter");
  await chat.streams(chat.turn());
  await expect(chat.composer).toBeFocused();
  await page.keyboard.press("Escape");
  await chat.turn().ends("interrupted");
  await expect(chat.turn().notice).toContainText("Stopped by you.");

  await chat.turn().good.focus();
  await page.keyboard.press("Space");
  await expect(chat.turn().good).toHaveAttribute("aria-pressed", "true");

  await page.keyboard.press("Control+Shift+O");
  await expect(page).toHaveURL(/\/chatgxy\/new$/);
  await expect(chat.composer).toBeFocused();

  await chat.item("endless please").getByRole("link").focus();
  await page.keyboard.press("Enter");
  await expect(chat.title).toHaveText("endless please");

  await page.getByRole("button", { name: "Delete conversation: an older one" }).focus();
  await page.keyboard.press("Enter");
  await expect(chat.items).toHaveCount(1);
  await chat.undo.focus();
  await page.keyboard.press("Enter");
  await expect(chat.items).toHaveCount(2);

  await chat.clear.focus();
  await page.keyboard.press("Enter");
  await expect(chat.dialog).toBeVisible();
  expect(await chat.dialog.evaluate((dialog) => dialog.contains(document.activeElement)), "the dialog takes the focus").toBe(true);
  await page.keyboard.press("Escape");
  await expect(chat.dialog).toBeHidden();
  await expect(chat.clear, "and gives it back").toBeFocused();
});

test("everything that has the focus shows it", async ({ page, user, chat }) => {
  await chat.open(await user.asked("showcase please"));
  await chat.composer.press("Shift+Tab");
  for (let step = 0; step < 30; step += 1) {
    const shown = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return true;
      const seen = [element, element.parentElement].some((shown) => {
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(shown!);
        return (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none";
      });
      return seen || element.outerHTML.slice(0, 120);
    });
    expect(shown).toBe(true);
    await page.keyboard.press("Shift+Tab");
  }
});

test("screen readers hear that an answer is made and that it is complete, and nothing in between", async ({ page, chat }) => {
  await chat.open();
  await page.evaluate(() => {
    const said: string[] = [];
    Object.assign(window, { said });
    new MutationObserver(() => {
      for (const place of document.querySelectorAll("[role=status], [role=alert], [aria-live=polite], [aria-live=assertive]")) {
        const text = place.textContent?.trim() ?? "";
        if (text && said.at(-1) !== text) said.push(text);
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  const said = () => page.evaluate(() => (window as unknown as { said: string[] }).said);
  await expect(chat.log).toHaveAttribute("aria-live", "off");
  await (await chat.ask("slow please")).ends();
  await expect.poll(said).toEqual(["Generating", "Answer complete"]);
  await (await chat.ask("slow once more")).ends();
  await expect.poll(said).toEqual(["Generating", "Answer complete", "Generating", "Answer complete"]);
  await chat.streams(await chat.ask("endless please"));
  await chat.stop.click();
  await expect.poll(async () => (await said()).slice(4)).toEqual(["Generating", "Answer stopped"]);
  await expect(chat.announcer).toHaveAttribute("aria-live", "polite");
});
