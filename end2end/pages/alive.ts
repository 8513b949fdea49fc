import { expect, type Page } from "@playwright/test";

declare global {
  interface Window {
    alive?: boolean;
  }
}

/** To run in each page from its start: notes when the page has come to life. */
export function noteWhenAlive(): void {
  // The page is taken over in the microtasks after its WASM has come; the next task finds it alive.
  const load = WebAssembly.instantiateStreaming;
  WebAssembly.instantiateStreaming = async (...given) => {
    const loaded = await load(...given);
    setTimeout(() => (window.alive = true), 0);
    return loaded;
  };
}

/** Waits until clicks and keys are heard. */
export async function alive(page: Page): Promise<void> {
  await expect.poll(() => page.evaluate(() => window.alive ?? false).catch(() => false), { message: "the page comes to life", intervals: [50] }).toBe(true);
}
