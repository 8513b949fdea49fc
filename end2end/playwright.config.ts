import { defineConfig } from "@playwright/test";

function need(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run the browser tests with "make e2e"`);
  return value;
}

const address = `127.0.0.1:${need("CHATGXY_TEST_PORT")}`;

export default defineConfig({
  testDir: "tests",
  // Two cores serve browser and server; every test has accounts of its own, so files may run side by side.
  workers: 2,
  fullyParallel: true,
  forbidOnly: !!process.env.CI,
  retries: 0,
  timeout: 30_000,
  expect: { timeout: 10_000 },
  reporter: process.env.CI ? [["list"]] : [["line"]],
  use: {
    baseURL: `http://${address}`,
    locale: "en-GB",
    timezoneId: "UTC",
    trace: "retain-on-failure",
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: need("CHROMIUM"),
      args: [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    },
  },
  webServer: {
    command: `exec "${need("CHATGXY_BIN")}" serve`,
    url: `http://${address}/login`,
    timeout: 30_000,
    stdout: "ignore",
    stderr: "pipe",
    gracefulShutdown: { signal: "SIGTERM", timeout: 5_000 },
    env: {
      CHATGXY_ADDR: address,
      CHATGXY_DATA_DIR: need("CHATGXY_TEST_DATA"),
      DATABASE_URL: `sqlite://${need("CHATGXY_TEST_DATA")}/chatgxy.db`,
      CHATGXY_MODEL: "static",
      CHATGXY_STATIC_RULES: new URL("rules.yml", import.meta.url).pathname,
      CHATGXY_REGISTRATION: "open",
      CHATGXY_LOG: "warn",
    },
  },
});
