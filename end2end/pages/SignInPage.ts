import type { Locator, Page } from "@playwright/test";

/** `/login` and `/register`, which have the same fields. */
export class SignInPage {
  readonly email: Locator;
  readonly password: Locator;
  readonly signIn: Locator;
  readonly create: Locator;
  readonly error: Locator;

  constructor(readonly page: Page) {
    this.email = page.getByRole("textbox", { name: "Email", exact: true });
    this.password = page.getByLabel("Password", { exact: false });
    this.signIn = page.getByRole("button", { name: "Sign in", exact: true });
    this.create = page.getByRole("button", { name: "Create account", exact: true });
    this.error = page.getByRole("alert");
  }

  async open(path: "/login" | "/register" = "/login"): Promise<this> {
    await this.page.goto(path);
    return this;
  }

  async fill(email: string, password: string): Promise<void> {
    await this.email.fill(email);
    await this.password.fill(password);
  }

  async enter(email: string, password: string): Promise<void> {
    await this.fill(email, password);
    await this.signIn.click();
  }
}
