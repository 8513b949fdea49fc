import { expect, test } from "../fixtures";

declare global {
  interface Window {
    hacked?: (how: string) => void;
    hacks?: string[];
  }
}

test("Markdown is shown as what it means", async ({ user, chat }) => {
  await chat.open(await user.asked("showcase please"));
  const { prose } = chat.turn();
  await expect(prose.getByRole("heading", { name: "Showcase", level: 1 })).toBeVisible();
  await expect(prose.locator("strong").first()).toHaveText("Bold");
  await expect(prose.locator("del")).toHaveText("struck");
  await expect(prose.getByRole("region", { name: "Table" }).getByRole("columnheader")).toHaveCount(5);
  await expect(prose.getByRole("checkbox", { name: "done", exact: true })).toBeChecked();
  await expect(prose.getByRole("checkbox", { name: "not done" })).not.toBeChecked();
  await expect(prose.locator("blockquote strong")).toHaveText("emphasis");
  await expect(prose.locator("figure[data-lang=python] .hl-keyword").first()).toHaveText("from");
  await expect(prose.locator("math")).toHaveCount(2);
  await expect(prose.locator("math[display=block] mfrac")).toHaveCount(1);
  await expect(prose.locator(".footnote-ref")).toHaveText("1");
  await expect(prose.locator("section.footnotes, .footnotes")).toContainText("What the note says.");
  await expect(prose.locator("hr")).toHaveCount(1);
});

test("links open in a new tab and tell the other site nothing", async ({ user, chat }) => {
  await chat.open(await user.asked("showcase please"));
  const links = await chat.turn().root.locator("a[href]:not([href^='#'])").all();
  expect(links.length).toBeGreaterThan(4);
  for (const link of links) {
    await expect(link).toHaveAttribute("target", "_blank");
    await expect(link).toHaveAttribute("rel", /\bnoopener\b.*\bnoreferrer\b/);
    await expect(link).toHaveAttribute("href", /^https?:\/\//);
  }
});

test("an image is loaded only when asked for, says from where, and then nothing but that image", async ({ user, context, guard, chat }) => {
  const asked: string[] = [];
  await context.route("https://images.example/**", async (route) => {
    asked.push(route.request().url());
    expect(route.request().headers()["referer"]).toBeUndefined();
    await route.fulfill({ contentType: "image/svg+xml", body: "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'/>" });
  });
  await chat.open(await user.asked("showcase please"));
  const { prose } = chat.turn();
  await expect(prose.locator("img")).toHaveCount(0);
  const image = prose.getByRole("link", { name: /Load image.*images\.example.*A heat map/ });
  await expect(image).toBeVisible();
  expect(asked, "nothing was loaded by itself").toEqual([]);

  guard.allow("https://images.example");
  // Not even the scripts of this test run in there.
  guard.expect(/Blocked script execution in '[^']*\/image\?/);
  await image.click();
  const frame = prose.locator("iframe");
  await expect(frame).toHaveAttribute("sandbox", "");
  await expect(frame).toHaveAttribute("title", "A heat map");
  await expect.poll(() => asked).toEqual(["https://images.example/heat.png?q=secret"]);
  await expect.poll(() => frame.contentFrame().locator("img").evaluate((img: HTMLImageElement) => img.naturalWidth)).toBe(40);
});

test("hostile Markdown is inert, and its words can still be read", async ({ page, user, chat }) => {
  await page.addInitScript(() => {
    window.hacks = [];
    window.hacked = (how) => window.hacks?.push(how);
  });
  let dialogs = 0;
  page.on("dialog", (dialog) => {
    dialogs += 1;
    void dialog.dismiss();
  });
  const conversation = await user.asked("hostile please");
  await chat.open(conversation);
  // As the server sends it, and as it comes while it streams.
  await (await chat.ask("hostile please")).ends();
  for (const turn of [chat.turn(0), chat.turn(1)]) {
    await expect(turn.prose).toContainText("Hostile start.");
    await expect(turn.prose).toContainText("Hostile end.");
    await expect(turn.prose, "what was meant as HTML is there as text").toContainText('<script>hacked("script")</script>');
    const found = await turn.prose.evaluate((prose) => {
      const bad: string[] = [];
      const tags = "script,iframe,object,embed,style,link,meta,base,form,input:not([type=checkbox]),textarea,select,svg,img,video,audio,foreignObject,mglyph";
      for (const element of prose.querySelectorAll(tags)) bad.push(element.outerHTML);
      for (const element of prose.querySelectorAll("*")) {
        for (const { name, value } of element.attributes) {
          if (name.startsWith("on") || name === "style" || name === "srcdoc" || name === "formaction" || name === "id") bad.push(`${name}=${value}`);
          if (["href", "src", "action", "data", "xlink:href"].includes(name) && !/^(https?:|mailto:|#)/.test(value)) bad.push(`${name}=${value}`);
        }
      }
      return bad;
    });
    expect(found.filter((text) => !text.startsWith("id=fn"))).toEqual([]);
    for (const name of ["link", "upper", "tab", "data", "vb", "file"]) {
      await expect(turn.prose.getByRole("link", { name: new RegExp(`^(script )?${name}$`) }), name).toHaveCount(0);
    }
  }
  expect(await page.evaluate(() => window.hacks)).toEqual([]);
  expect(dialogs).toBe(0);
  await expect(chat.composer).toBeVisible();
  await expect(page).toHaveURL(new RegExp(`${conversation}$`));
});

test("a question is shown as it was written, never as Markdown or HTML", async ({ chat }) => {
  await chat.open();
  const question = "<b>bold?</b> **stars** ![x](https://evil.example/x.png)\n  indented";
  const turn = await chat.ask(question);
  await expect(turn.prompt).toHaveText(question, { useInnerText: true });
  await expect(turn.prompt.locator("*")).toHaveCount(0);
  await expect(chat.title).toHaveText("<b>bold?</b> **stars** ![x](https://evil.example/x.png) indented");
});

test("the answer and its code can be copied as they were written", async ({ page, user, context, chat }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  const conversation = await user.asked("showcase please");
  await chat.open(conversation);
  const turn = chat.turn();
  await turn.copy.click();
  await expect(turn.copy).toHaveAttribute("data-done", "true");
  await expect.poll(clipboard).toBe((await user.answers(conversation))[0]);

  const code = turn.prose.locator("figure[data-lang=python]");
  await code.getByRole("button", { name: "Copy" }).click();
  await expect(code.getByRole("button", { name: "Copied" })).toBeVisible();
  await expect.poll(clipboard).toMatch(/^from collections import Counter\n[^]* # ✓ <b>&amp;<\/b>\n$/);
});

test("a rating belongs to its own answer, carries a reason, can be taken back, and stays after a reload", async ({ user, chat }) => {
  const conversation = await user.asked("first");
  await user.asked("second", conversation);
  await user.asked("third", conversation);
  await chat.open(conversation);
  const [first, second, third] = [chat.turn(0), chat.turn(1), chat.turn(2)];
  await first.good.click();
  await second.bad.click();
  await expect(second.reason).toBeVisible();
  await second.reason.fill("It says nothing");
  await second.root.getByRole("button", { name: "Send note" }).click();
  await expect(chat.composer).toBeFocused();
  await expect(second.root).toContainText("Thank you. Your note is kept with this answer.");
  await third.bad.click();
  await expect(third.bad).toHaveAttribute("aria-pressed", "true");
  await third.bad.click();
  await expect(third.bad).toHaveAttribute("aria-pressed", "false");
  await expect.poll(async () => (await user.stored(conversation)).map((turn) => turn.feedback)).toEqual([
    { good: true },
    { good: false, reason: "It says nothing" },
    null,
  ]);
  await chat.reload();
  const pressed = async () => Promise.all([first.good, first.bad, second.good, second.bad, third.good, third.bad].map((b) => b.getAttribute("aria-pressed")));
  expect(await pressed()).toEqual(["true", "false", "false", "true", "false", "false"]);
});

test("a rating that was not stored is taken back and said", async ({ page, user, guard, chat }) => {
  await chat.open(await user.asked("hello"));
  guard.expect(/net::ERR_FAILED/);
  await page.route("**/api/fn/chat/feedback", (route) => route.abort(), { times: 1 });
  await chat.turn().good.click();
  await expect(chat.toasts).toContainText("Your rating was not stored.");
  await expect(chat.turn().good).toHaveAttribute("aria-pressed", "false");
});

test("suggestions are cards by priority; those that ask something fill the composer", async ({ user, chat }) => {
  await chat.open(await user.asked("showcase please"));
  const { suggestions } = chat.turn();
  const cards = suggestions.locator(".action-card");
  await expect(cards.locator(".action-title")).toHaveText(["Read the tutorial", "Read about depth", "Which tool counts reads?", "A trap"]);
  expect(await cards.evaluateAll((all) => all.map((card) => card.getAttribute("data-priority")))).toEqual(["1", "2", "3", "3"]);
  await expect(suggestions.getByRole("link", { name: /Read the tutorial/ })).toHaveAttribute("href", "https://example.org/tutorial");
  await expect(suggestions.getByRole("link", { name: /A trap/ })).toHaveCount(0);
  await suggestions.getByRole("button", { name: /Which tool counts reads/ }).click();
  await expect(chat.composer).toHaveValue("Which tool counts reads?");
  await expect(chat.composer).toBeFocused();
});

test("a very long question is folded, and opens", async ({ user, chat }) => {
  await chat.open(await user.asked(`A long one. ${"words and ".repeat(400)}end`));
  const turn = chat.turn();
  const height = async () => (await turn.prompt.boundingBox())?.height ?? 0;
  const folded = await height();
  await turn.root.getByText("Show whole message").click();
  await expect.poll(height).toBeGreaterThan(folded + 100);
});
