import { readFile } from "node:fs/promises";

import { expect, test } from "../fixtures";

test("the agents of the server can be picked, each with what it is for", async ({ chat }) => {
  await chat.open();
  await expect(chat.agent.getByRole("option")).toHaveText(["Auto", "Router", "Error analysis", "Tool recommendation", "Custom tool"]);
  await expect(chat.agent.getByRole("option", { name: "Error analysis" })).toHaveAttribute("title", /failed/);
  await chat.agent.selectOption({ label: "Tool recommendation" });
  const turn = await chat.ask("hello");
  await turn.ends();
});

test("an agent that asks back offers its options as buttons, and one click answers", async ({ chat }) => {
  await chat.open();
  const turn = await chat.ask("I am unsure");
  await turn.ends();
  await expect(turn.root.locator(".agent-name")).toHaveText("Clarification");
  const options = chat.turn(0).root.getByRole("list", { name: "Options" }).getByRole("button");
  await expect(options).toHaveText(["Paired-end reads", "A count matrix"]);
  await options.nth(1).click();
  await expect(chat.turns).toHaveCount(2);
  await expect(chat.turn().prompt).toHaveText("A count matrix");
  await chat.turn().ends();
  await expect(chat.composer).toHaveValue("");
  await expect(options.first(), "what was answered is not asked any more").toBeDisabled();
});

test("a tool definition is saved as a file, byte for byte", async ({ page, chat }) => {
  await chat.open();
  const turn = await chat.ask("make a tool");
  await turn.ends();
  const download = page.waitForEvent("download");
  await turn.suggestions.getByRole("link", { name: /Save the tool/ }).click();
  const file = await download;
  expect(file.suggestedFilename()).toBe("line-counter.yml");
  expect(await readFile(await file.path(), "utf8")).toBe('id: line-counter\nname: "Zähle Zeilen"\n');
});

test.describe("without JavaScript", () => {
  test.use({ javaScriptEnabled: false });
  test("an option is a form that answers", async ({ page, user, guard, chat }) => {
    guard.expect(/preloaded using link preload but not used/);
    const conversation = await user.asked("I am unsure");
    await page.goto(`/chatgxy/${conversation}`);
    await chat.turn().root.getByRole("button", { name: "Paired-end reads" }).click();
    await expect(chat.turns).toHaveCount(2);
    await expect(chat.turn().prompt).toHaveText("Paired-end reads");
  });
});
