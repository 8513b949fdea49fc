import type { Locator, Page } from "@playwright/test";

import { alive } from "./alive";

/** `/account` */
export class AccountPage {
  readonly current: Locator;
  readonly next: Locator;
  readonly change: Locator;
  readonly changed: Locator;
  readonly keyName: Locator;
  readonly createKey: Locator;
  readonly newKey: Locator;
  readonly keys: Locator;
  readonly signOut: Locator;
  readonly model: Locator;

  constructor(readonly page: Page) {
    this.model = page.getByRole("region", { name: "Model", exact: true });
    this.current = page.getByLabel("Current password", { exact: true });
    this.next = page.getByLabel("New password", { exact: true });
    this.change = page.getByRole("button", { name: "Change password", exact: true });
    this.changed = page.getByText("Password changed.");
    this.keyName = page.getByRole("textbox", { name: "Name", exact: true });
    this.createKey = page.getByRole("button", { name: "Create key", exact: true });
    this.newKey = page.locator(".new-key");
    this.keys = page.getByRole("region", { name: "Your API keys" }).getByRole("row");
    this.signOut = page.getByRole("button", { name: "Sign out", exact: true });
  }

  async open(): Promise<this> {
    await this.page.goto("/account");
    await alive(this.page);
    return this;
  }

  error(section: "Password" | "API keys"): Locator {
    return this.page.getByRole("region", { name: section, exact: true }).getByRole("alert");
  }

  key(name: string): Locator {
    return this.keys.filter({ hasText: name });
  }
}
