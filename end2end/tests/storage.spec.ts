import { expect, test } from "../fixtures";

const WAYS = [
  {
    how: "blocked",
    spoil: () => {
      for (const name of ["localStorage", "sessionStorage"]) {
        Object.defineProperty(window, name, {
          get() {
            throw new DOMException("The operation is insecure.", "SecurityError");
          },
        });
      }
    },
  },
  {
    how: "full",
    spoil: () => {
      Storage.prototype.setItem = () => {
        throw new DOMException("The quota has been exceeded.", "QuotaExceededError");
      };
    },
  },
  {
    how: "full of nonsense",
    spoil: () => {
      for (const name of ["chatgxy-theme", "chatgxy-history"]) localStorage.setItem(name, "{nonsense");
      sessionStorage.setItem("chatgxy-drafts", '[{"a":');
    },
  },
];

for (const { how, spoil } of WAYS) {
  test(`with the browser's storage ${how} the chat works`, async ({ page, user, chat }) => {
    await user.asked("other");
    await page.addInitScript(spoil);
    await chat.open();
    await chat.theme.click();
    await expect(page.locator("html")).toHaveAttribute("data-theme", "light");
    await chat.composer.fill("a draft");
    await chat.follow("other");
    await chat.new.click();
    await expect(chat.composer, "drafts last as long as the page").toHaveValue("a draft");
    await (await chat.ask("a question")).ends();
    await chat.hide.click();
    await expect(chat.history).toBeHidden();
    await chat.show.click();
    await expect(chat.items).toHaveCount(2);
    await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Account" }).click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  });
}
