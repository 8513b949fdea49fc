import { defineConfig } from "@playwright/test";

import { need } from "./environment";

export default defineConfig({
  testDir: "tests",
  // Two cores serve browsers and servers. Every worker has a server and every test has accounts of its own, so all may run side by side.
  workers: 2,
  fullyParallel: true,
  forbidOnly: !!process.env.CI,
  retries: 0,
  timeout: 30_000,
  expect: { timeout: 10_000 },
  reporter: [["list"]],
  use: {
    locale: "en-GB",
    timezoneId: "Europe/Berlin",
    colorScheme: "light",
    // For a closer look at one test: make e2e ARGS="--trace on -g NAME".
    trace: "off",
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: need("CHROMIUM"),
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    },
  },
});
