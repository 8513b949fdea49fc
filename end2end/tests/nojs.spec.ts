import { expect, PASSWORD, test } from "../fixtures";
import { SignInPage } from "../pages/SignInPage";

test.use({ javaScriptEnabled: false });

// The browser fetches for a script that will not run, and says so after a while.
test.beforeEach(({ guard }) => guard.expect(/preloaded using link preload but not used/));

test("without JavaScript one signs in, asks by a plain form and reads the answer", async ({ page, user, context, chat }) => {
  await context.clearCookies();
  await (await new SignInPage(page).open()).enter(user.email, PASSWORD);
  await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeVisible();
  await chat.composer.fill("A plain question\nover two lines");
  await chat.send.click();
  await expect(page).toHaveURL(/\/chatgxy\/[0-9a-f-]{36}$/);
  await expect(chat.turn().prompt).toContainText("A plain question");
  await expect(chat.turn().prose).toHaveText("Quick answer.");

  await chat.composer.fill("And another");
  await chat.send.click();
  await expect(chat.turns).toHaveCount(2);
  await expect(chat.turn().prompt).toHaveText("And another");
});

test("without JavaScript a page whose answer is being written comes again by itself until it is there", async ({ page, user, chat }) => {
  const conversation = await user.asks("slow please");
  await page.goto(`/chatgxy/${conversation}`);
  await expect(chat.turn().root).toHaveAttribute("data-state", "running");
  await expect(chat.composer, "nothing can be typed that the next load would lose").toBeHidden();
  await expect(page.getByText("An answer is being written. This page loads itself again")).toBeVisible();
  await chat.turn().ends();
  await expect(chat.composer).toBeVisible();
  await expect(chat.turn().prose).toContainText("the end of this slow answer.");
  expect(await page.content(), "and then no more").not.toContain('http-equiv="refresh"');
});

test("without JavaScript an answer is stopped by a form", async ({ page, user, chat }) => {
  const conversation = await user.asks("endless please");
  await page.goto(`/chatgxy/${conversation}`);
  await expect(chat.turn().prose).toContainText("The first sentence");
  await chat.stop.click();
  await expect(chat.turn().notice).toContainText("Stopped by you.");
  await expect(chat.stop).toBeHidden();
  await expect(page).toHaveURL(new RegExp(`${conversation}$`));
});

test("without JavaScript history and answers are readable, and links lead through them", async ({ page, user, chat }) => {
  await user.asked("showcase please");
  await user.asked("second one");
  await page.goto("/chatgxy");
  await expect(chat.turn().prompt).toHaveText("second one");
  await expect(chat.items.locator(".history-title")).toHaveText(["second one", "showcase please"]);
  await chat.item("showcase please").getByRole("link").click();
  await expect(chat.turn().prose.getByRole("heading", { name: "Showcase" })).toBeVisible();
  await expect(chat.turn().prose.locator("figure .hl-keyword").first()).toBeVisible();
  await expect(chat.turn().prose.locator("math")).toHaveCount(2);
  await expect(chat.turn().suggestions.getByRole("link")).toHaveCount(2);
  await chat.new.click();
  await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeVisible();
});

test("without JavaScript a failed turn is tried again by a form", async ({ page, user, chat }) => {
  const conversation = await user.asked("cut please");
  await page.goto(`/chatgxy/${conversation}`);
  await expect(chat.turn().notice).toContainText("The connection to the model broke off.");
  await chat.turn().noticeRetry.click();
  await expect(page).toHaveURL(new RegExp(`${conversation}$`));
  await expect(chat.turns).toHaveCount(1);
  await expect.poll(async () => (await user.stored(conversation))[0]).toMatchObject({ attempt: 2 });
  await expect(chat.turn().notice).toContainText("The connection to the model broke off.");
});

test("without JavaScript earlier turns are a link away", async ({ page, user, chat }) => {
  const conversation = await user.asked("Question 1");
  for (let number = 2; number <= 35; number += 1) await user.asked(`Question ${number}`, conversation);
  await page.goto(`/chatgxy/${conversation}`);
  await expect(chat.turns).toHaveCount(30);
  await chat.earlier.click();
  await expect(chat.turns).toHaveCount(5);
  await expect(chat.turn(0).prompt).toHaveText("Question 1");
  await expect(chat.turn(0).root).toHaveAccessibleName("Turn 1");
  await page.getByRole("link", { name: "Show latest turns" }).click();
  await expect(chat.turn().prompt).toHaveText("Question 35");
});

test("without JavaScript an error of a form is shown beside it", async ({ page, user, account }) => {
  await page.goto("/account");
  await account.current.fill("not my password");
  await account.next.fill("a new horse battery");
  await account.change.click();
  await expect(account.error("Password")).toHaveText("The current password is wrong.");
  await account.current.fill(PASSWORD);
  await account.next.fill("a new horse battery");
  await account.change.click();
  await expect(page.getByRole("heading", { name: "Account", exact: true })).toBeVisible();
  await expect(account.error("Password")).toBeHidden();
  await account.signOut.click();
  const form = new SignInPage(page);
  await form.enter(user.email, PASSWORD);
  await expect(form.error).toHaveText("The email or the password is wrong.");
  await form.enter(user.email, "a new horse battery");
  await expect(page.getByRole("heading", { name: "What are you working on?" })).toBeVisible();
});

test("without JavaScript the history is a sheet on a narrow window", async ({ page, user, chat }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  const conversation = await user.asked("hello");
  await page.goto(`/chatgxy/${conversation}`);
  await expect(chat.history).toBeHidden();
  await chat.show.click();
  await expect(chat.history).toBeVisible();
  await chat.hide.click();
  await expect(chat.history).toBeHidden();
});

test("without JavaScript nothing is offered that needs it", async ({ page, user, chat }) => {
  await page.goto("/chatgxy/new");
  await expect(page.locator(".examples")).toBeHidden();
  await page.goto(`/chatgxy/${await user.asked("hello")}`);
  await expect(chat.turn().root.locator(".answer-foot button:visible")).toHaveCount(0);
  await page.goto("/account");
  await expect(page.getByRole("button", { name: "Create key" })).toBeHidden();
});
