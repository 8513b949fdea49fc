import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { alive, expect, test } from "../fixtures";

async function faults(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]).analyze();
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary?.split("\n")[1] ?? ""}`));
}

for (const colorScheme of ["light", "dark"] as const) {
  test.describe(`axe finds nothing in ${colorScheme}`, () => {
    test.use({ colorScheme });

    test("on the pages for signed-out people", async ({ page, guard }) => {
      for (const path of ["/login", "/register"]) {
        await page.goto(path);
        await alive(page);
        expect(await faults(page), path).toEqual([]);
      }
      guard.expect(/status of 404/);
      await page.goto("/nowhere");
      expect(await faults(page)).toEqual([]);
    });

    test("on the welcome of an empty chat", async ({ page, chat }) => {
      await chat.open();
      expect(await faults(page)).toEqual([]);
    });

    test("on a rich answer with everything opened", async ({ page, user, chat }) => {
      await chat.open(await user.asked("showcase please"));
      await chat.turn().bad.click();
      await expect(chat.turn().reason).toBeVisible();
      expect(await faults(page)).toEqual([]);
    });

    test("while an answer streams, and when it failed", async ({ page, user, chat }) => {
      const conversation = await user.asked("cut please");
      await user.asked("think please", conversation);
      await chat.open(conversation);
      await chat.turn().reasoning.getByText("Reasoning").click();
      await chat.streams(await chat.ask("endless please"));
      expect(await faults(page)).toEqual([]);
      await chat.stop.click();
      await chat.turn().ends("interrupted");
      await chat.delete("cut please");
      await expect(chat.undo).toBeVisible();
      expect(await faults(page)).toEqual([]);
    });

    test("on the history as a sheet, and on the question before it is cleared", async ({ page, user, chat }) => {
      await page.setViewportSize({ width: 390, height: 844 });
      await chat.open(await user.asked("hello"));
      await chat.show.click();
      await expect(chat.history).toBeVisible();
      expect(await faults(page)).toEqual([]);
      await chat.clear.click();
      await expect(chat.dialog).toBeVisible();
      expect(await faults(page)).toEqual([]);
    });

    test("on the account, with a key just made", async ({ page, account }) => {
      await account.open();
      await account.keyName.fill("my notebook");
      await account.createKey.click();
      await expect(account.newKey).toContainText("chatgxy_");
      expect(await faults(page)).toEqual([]);
    });
  });
}
