import { expect, Server, test as base } from "../fixtures";

const test = base.extend<object, { server: Server }>({
  server: [
    async ({}, use) => {
      const server = await Server.start(null);
      await use(server);
      await server.stop();
    },
    { scope: "worker" },
  ],
});

test("on a first run the page says plainly that a demo answers and how to connect a real model", async ({ page, chat, account }) => {
  await chat.open();
  await expect(page.getByText("A demo model answers.")).toBeVisible();
  await page.getByRole("link", { name: "Connect a real one" }).click();
  await expect(account.model).toContainText("No model is connected, so a demo answers.");
  await expect(account.model).toContainText("CHATGXY_MODEL=openai:");
  await expect(account.model).toBeInViewport();
  await page.goBack();
  await chat.ready();
  const turn = await chat.ask("Hello");
  await turn.ends();
  await expect(turn.prose).toContainText("I am only a demo model");
  await expect(turn.root.locator(".model-name")).toHaveText("demo");
});
