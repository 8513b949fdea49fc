import { expect, test } from "../fixtures";

// Bytes on the wire: page, client, style and icons, compressed, with all headers.
const BUDGET = 350_000;

test("the first load of the chat is 350 kB at most", async ({ page, user, context, chat }) => {
  const conversation = await user.asked("hello");
  const network = await context.newCDPSession(page);
  await network.send("Network.enable");
  await network.send("Network.setCacheDisabled", { cacheDisabled: true });
  const urls = new Map<string, string>();
  const sizes: [string, number][] = [];
  network.on("Network.responseReceived", ({ requestId, response }) => urls.set(requestId, response.url));
  network.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => sizes.push([urls.get(requestId) ?? requestId, encodedDataLength]));
  await chat.open(conversation);
  await page.waitForLoadState("networkidle");
  const sum = sizes.reduce((total, [, size]) => total + size, 0);
  const list = sizes.map(([url, size]) => `${size} ${url}`).join("\n");
  test.info().annotations.push({ type: "first load", description: `${sum} bytes` });
  expect(sizes.some(([url, size]) => url.endsWith(".wasm") && size > 50_000), list).toBe(true);
  expect(sum, list).toBeLessThanOrEqual(BUDGET);
  expect(new Set(sizes.map(([url]) => url)).size, `nothing is loaded twice\n${list}`).toBe(sizes.length);
});

test("a second visit loads nothing of the client again", async ({ page, user, chat }) => {
  await chat.open(await user.asked("hello"));
  const loaded: string[] = [];
  page.on("response", (response) => {
    const path = new URL(response.url()).pathname;
    if (path.startsWith("/pkg/")) loaded.push(path);
  });
  const transferred = () =>
    page.evaluate(() => performance.getEntriesByType("resource").filter((entry) => entry.name.includes("/pkg/")).map((entry) => (entry as PerformanceResourceTiming).transferSize));
  await chat.reload();
  expect(loaded.length).toBeGreaterThan(0);
  expect((await transferred()).every((size) => size === 0), (await transferred()).join(" ")).toBe(true);
});

test("without WASM the page is readable and its forms work", async ({ page, user, guard, chat }) => {
  guard.expect(/chatgxy_bg\.wasm|Failed to fetch|dynamically imported module/);
  await page.route("**/*.wasm", (route) => route.abort());
  const conversation = await user.asked("showcase please");
  await page.goto(`/chatgxy/${conversation}`);
  await expect(chat.turn().prose.getByRole("heading", { name: "Showcase" })).toBeVisible();
  await expect(chat.turn().prose).toContainText("The end.");
  await expect(chat.items).toHaveCount(1);
  await chat.composer.fill("a plain question");
  await chat.send.click();
  await expect(chat.turn().prompt).toHaveText("a plain question");
});

test("the server sends the page whole: the answer is in the first response", async ({ page, user }) => {
  const conversation = await user.asked("showcase please");
  const html = await (await page.request.get(`/chatgxy/${conversation}`)).text();
  expect(html).toContain("<h1>Showcase</h1>");
  expect(html).toContain("hl-keyword");
  expect(html).toContain("<mfrac>");
});
