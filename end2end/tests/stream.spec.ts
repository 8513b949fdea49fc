import type { Page } from "@playwright/test";

import { expect, PASSWORD, test } from "../fixtures";
import { ChatPage, type Turn } from "../pages/ChatPage";
import { SignInPage } from "../pages/SignInPage";

declare global {
  interface Window {
    seenTab?: boolean;
  }
}

/** Makes tabs that nobody looks at: headless browsers take every tab for one that is seen. */
function hidden(): void {
  window.seenTab = false;
  Object.defineProperty(document, "hidden", { get: () => !window.seenTab });
  Object.defineProperty(document, "visibilityState", { get: () => (window.seenTab ? "visible" : "hidden") });
}

async function look(page: Page, seen = true): Promise<void> {
  await page.evaluate((now) => {
    window.seenTab = now;
    document.dispatchEvent(new Event("visibilitychange"));
  }, seen);
}

/** The streams that a page holds open now. */
function streams(page: Page): Set<unknown> {
  const open = new Set<unknown>();
  page.on("request", (request) => request.url().includes("/events") && open.add(request));
  page.on("requestfinished", (request) => open.delete(request));
  page.on("requestfailed", (request) => open.delete(request));
  return open;
}

/** All show the same, to the byte; the end of a stream and its last words may come one after the other. */
async function same(...turns: Turn[]): Promise<void> {
  await expect.poll(async () => new Set(await Promise.all(turns.map((turn) => turn.html()))).size).toBe(1);
}

test("an answer grows on screen while it is made", async ({ user, chat }) => {
  await chat.open(await user.asked("before"));
  const turn = await chat.ask("slow please");
  const lengths: number[] = [];
  await expect
    .poll(async () => {
      lengths.push(await turn.length());
      return turn.state();
    }, { intervals: [200], timeout: 20_000 })
    .toBe("answered");
  const steps = new Set(lengths);
  expect(steps.size, `the lengths seen: ${lengths.join(" ")}`).toBeGreaterThan(5);
  await expect(turn.prose).toContainText("the end of this slow answer.");
  await expect(turn.root.locator(".answer-meta")).toContainText(/\d+ tok.*\d\.\d s.*\d\d:\d\d/);
});

test("reloaded in mid-answer, a page shows prefix and tail, to the byte what an undisturbed tab shows", async ({ user, context, chat }) => {
  const calm = await chat.open();
  await calm.ask("slow please");
  await calm.streams(calm.turn());
  const conversation = await calm.conversation();
  const restless = await new ChatPage(await context.newPage()).open(conversation);
  await restless.streams(restless.turn(), 40);
  for (let time = 1; time <= 3; time += 1) {
    await restless.page.reload({ waitUntil: "commit" });
    await expect(restless.turn().prose, "the prefix is there at once").toContainText("Sequencing depth");
    await expect(calm.turn().root, "all this is in mid-answer").toHaveAttribute("data-state", "running");
  }
  await calm.turn().ends();
  await restless.turn().ends();
  await expect(calm.turn().prose).toContainText("the end of this slow answer.");
  await same(restless.turn(), calm.turn());
  await restless.reload();
  await same(restless.turn(), calm.turn());
  expect(await user.answers(conversation)).toHaveLength(1);
});

test("two tabs and another browser show the same answer while it streams, and at its end", async ({ user, context, device, chat }) => {
  const first = await chat.open();
  await first.ask("slow please");
  await first.streams(first.turn());
  const conversation = await first.conversation();
  const elsewhere = await (await device()).newPage();
  await (await new SignInPage(elsewhere).open()).enter(user.email, PASSWORD);
  const second = await new ChatPage(await context.newPage()).open(conversation);
  await second.streams(second.turn(), 100);
  const third = new ChatPage(elsewhere);
  await third.ready();
  await third.turn().ends();
  await first.turn().ends();
  await second.turn().ends();
  await expect(first.turn().prose).toContainText("the end of this slow answer.");
  await same(first.turn(), second.turn(), third.turn());
  for (const chat of [first, second, third]) await expect(chat.turns).toHaveCount(1);
});

test("another tab shows what this one sends, without a reload", async ({ user, context, chat }) => {
  const conversation = await user.asked("before");
  const here = await chat.open(conversation);
  const there = await new ChatPage(await context.newPage()).open(conversation);
  await here.ask("a quick one");
  await expect(there.turns).toHaveCount(2);
  await expect(there.turn().prompt).toHaveText("a quick one");
  await there.turn().ends();
  await same(here.turn(), there.turn());
  await expect(there.item("before").locator(".count")).toHaveText("2 turns");
});

test("text of any script comes whole, whatever the pieces", async ({ user, chat }) => {
  await chat.open();
  const turn = await chat.ask("unicode please");
  await chat.streams(turn, 5);
  await turn.ends();
  const words = "数据 данные נתונים 👩🏽‍🔬🧬 e\u0301 ﷽ 𝒢 — the end.";
  await expect(turn.prose).toHaveText(words);
  expect(await user.answers(await chat.conversation())).toEqual([words]);
});

test("closing the tab does not stop an answer", async ({ page, user, context, chat }) => {
  await chat.open();
  await chat.streams(await chat.ask("slow please"));
  const conversation = await chat.conversation();
  await page.close();
  await expect.poll(async () => (await user.answers(conversation))[0] ?? "", { timeout: 20_000 }).toContain("the end of this slow answer.");
  const later = await new ChatPage(await context.newPage()).open(conversation);
  await expect(later.turn().root).toHaveAttribute("data-state", "answered");
});

test("Stop ends an answer at once, keeps its text, and Retry answers the same question anew", async ({ user, chat }) => {
  await chat.open();
  const right = async (button: typeof chat.send) => {
    const box = (await button.boundingBox())!;
    return Math.round(box.x + box.width);
  };
  const sendsAt = await right(chat.send);
  const turn = await chat.ask("slow please");
  await chat.streams(turn, 60);
  expect(await right(chat.stop), "Stop stands where Send stood").toBe(sendsAt);
  await chat.stop.click();
  await turn.ends("interrupted");
  await expect(turn.notice).toContainText("Stopped by you. What came is kept.");
  await expect(chat.composer, "the focus does not get lost").toBeFocused();
  await expect(turn.prose).toContainText("Sequencing depth");
  await expect(turn.prose).not.toContainText("the end of this slow answer.");
  await expect(chat.send).toBeVisible();
  const conversation = await chat.conversation();
  const [stopped] = await user.answers(conversation);
  await chat.reload();
  await expect(turn.notice).toContainText("Stopped by you.");
  expect(await user.answers(conversation)).toEqual([stopped]);

  await turn.noticeRetry.click();
  await chat.turn().ends();
  await expect(chat.turns).toHaveCount(1);
  await expect(turn.prompt).toHaveText("slow please");
  await expect(turn.prose).toContainText("the end of this slow answer.");
  await expect(turn.notice).toHaveCount(0);
  await chat.reload();
  await expect(chat.turns).toHaveCount(1);
  await expect(turn.prose).toContainText("the end of this slow answer.");
});

test("an answer that fell silent can be stopped", async ({ chat }) => {
  await chat.open();
  const turn = await chat.ask("hang please");
  await expect(turn.prose).toHaveText("It began to speak.");
  await chat.stop.click();
  await turn.ends("interrupted");
  await expect(turn.prose).toHaveText("It began to speak.");
});

test("ten tabs work over HTTP/1.1 while an answer streams, since hidden ones hold no connection", async ({ context, chat }) => {
  test.setTimeout(60_000);
  await chat.open();
  const turn = await chat.ask("endless please");
  await chat.streams(turn);
  const conversation = await chat.conversation();
  const tabs: ChatPage[] = [];
  const open: Set<unknown>[] = [];
  for (let tab = 2; tab <= 10; tab += 1) {
    const next = await context.newPage();
    await next.addInitScript(hidden);
    open.push(streams(next));
    tabs.push(new ChatPage(next));
  }
  await Promise.all(tabs.map((tab) => tab.open(conversation)));
  for (const tab of tabs) await expect(tab.turn().prose).toContainText("The first sentence");
  expect(open.map((set) => set.size)).toEqual(Array(9).fill(0));
  await expect(turn.root, "all that happened while it streamed").toHaveAttribute("data-state", "running");

  const [last, streamsOfLast] = [tabs.at(-1)!, open.at(-1)!];
  await look(last.page);
  await expect.poll(() => streamsOfLast.size).toBe(1);
  await last.streams(last.turn(), (await last.turn().length()) + 10);
  await look(last.page, false);
  await expect.poll(() => streamsOfLast.size).toBe(0);
  await look(last.page);
  await last.stop.click();
  await last.turn().ends("interrupted");
  await turn.ends("interrupted");
  await same(turn, last.turn());
  await look(tabs[0]!.page);
  await tabs[0]!.turn().ends("interrupted");
  await same(turn, tabs[0]!.turn());
});

test("a connection that breaks in mid-answer comes back, and nothing is lost or doubled", async ({ page, guard, chat }) => {
  await chat.open();
  guard.expect(/ERR_(INTERNET_DISCONNECTED|NETWORK_CHANGED|FAILED|INCOMPLETE_CHUNKED_ENCODING)/);
  const turn = await chat.ask("slow please");
  await chat.streams(turn, 60);
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  const conditions = { latency: 0, downloadThroughput: -1, uploadThroughput: -1 };
  await network.send("Network.emulateNetworkConditions", { offline: true, ...conditions });
  await expect(chat.offline).toContainText("You are offline.");
  await network.send("Network.emulateNetworkConditions", { offline: false, ...conditions });
  await turn.ends();
  await expect(turn.prose).toContainText("the end of this slow answer.");
  const html = await turn.html();
  await chat.reload();
  expect(await turn.html()).toBe(html);
});

test("what the model thinks is shown apart from what it says", async ({ chat }) => {
  await chat.open();
  const turn = await chat.ask("think please");
  await turn.ends();
  await expect(turn.prose).toHaveText("The answer after some thought.");
  await turn.reasoning.getByText("Reasoning").click();
  await expect(turn.reasoning).toContainText("First I weigh one side, then the other.");
});

test("no settled block is touched while a later one streams", async ({ user, chat }) => {
  await chat.open(await user.asked("showcase please"));
  const turn = await chat.ask("slow please");
  await chat.streams(turn);
  const watched = await chat.log.evaluate(async (log) => {
    const settled = new Set<Element>(log.querySelectorAll(".turn:first-of-type .block"));
    const before = settled.size;
    const touched: string[] = [];
    const read = (records: MutationRecord[]) => {
      for (const { target } of records) {
        const element = target instanceof Element ? target : target.parentElement;
        const block = element?.closest(".block");
        if (block && settled.has(block)) touched.push(block.textContent ?? "");
      }
      // The last block may still turn out to belong to the one before it; what two follow is settled from now on.
      for (const block of log.querySelectorAll(".block:has(+ .block + .block)")) settled.add(block);
    };
    const observer = new MutationObserver(read);
    observer.observe(log, { subtree: true, childList: true, characterData: true, attributes: true });
    await new Promise<void>((resolve) => {
      const ended = new MutationObserver(() => log.querySelector(".turn:last-of-type")?.getAttribute("data-state") === "answered" && resolve());
      ended.observe(log, { subtree: true, attributeFilter: ["data-state"] });
    });
    read(observer.takeRecords());
    observer.disconnect();
    return { before, touched, settled: settled.size, gone: [...settled].filter((block) => !log.contains(block)).length };
  });
  expect(watched.touched).toEqual([]);
  expect(watched.gone, "the same nodes are still there").toBe(0);
  expect(watched.before).toBeGreaterThan(10);
  expect(watched.settled - watched.before, "blocks of the answer were watched").toBeGreaterThan(4);
});
