// People who use the server by programs: an account, its key, and chats by the AI SDK. No browser is started.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { test as base, expect, Person, Server } from "../fixtures";
import { expectSound, expectValid } from "./checks";
import { type Access, Chat, type Opening } from "./client";

export { expect };

interface Fixtures {
  /** The key of a new account. */
  access: Access;
  /** The key of somebody else. */
  stranger: Access;
  /** Opens a chat of `access`; of another one if it is given. What it read and what it left behind is looked at after the test. */
  open: (opening?: Opening, access?: Access) => Chat;
  /** A new chat of `access`. */
  program: Chat;
  /** Somebody on a server of its own whose clock can be set forward. */
  clock: Clock;
}

export interface Clock {
  access: Access;
  /** So much later than it is. */
  setForward: (seconds: number) => Promise<void>;
}

export const test = base.extend<Fixtures>({
  // By plain requests: the one of the browser tests would start a browser.
  user: async ({ request, server }, use) => use(await Person.register(request, server.url)),

  access: async ({ user, server }, use) => use({ url: server.url, key: await user.key() }),

  stranger: async ({ playwright, server }, use) => {
    const request = await playwright.request.newContext();
    const person = await Person.register(request, server.url);
    await use({ url: server.url, key: await person.key() });
    await request.dispose();
  },

  open: async ({ access }, use, info) => {
    const opened: Chat[] = [];
    await use((opening, other = access) => {
      const chat = new Chat(other, opening);
      opened.push(chat);
      return chat;
    });
    if (info.status === info.expectedStatus) await Promise.all(opened.map(leavesAllInOrder));
  },

  program: async ({ open }, use) => use(open()),

  clock: async ({ playwright }, use) => {
    const folder = await mkdtemp(join(tmpdir(), "chatgxy-clock-"));
    const file = join(folder, "ahead");
    const server = await Server.start(undefined, { CHATGXY_TEST_CLOCK: file });
    const request = await playwright.request.newContext();
    const person = await Person.register(request, server.url);
    await use({
      access: { url: server.url, key: await person.key() },
      setForward: (seconds) => writeFile(file, String(seconds * 1_000)),
    });
    await request.dispose();
    await server.stop();
    await rm(folder, { recursive: true });
  },
});

/** Whatever was done, streams were sound, nothing runs any more, and what is stored can be loaded again. */
async function leavesAllInOrder(chat: Chat): Promise<void> {
  await chat.close();
  await expectSound(chat);
  const response = await chat.request("GET", "messages");
  if (response.status === 404) return;
  expect((await chat.request("GET", "stream")).status, "nothing is left running").toBe(204);
  await expectValid((await response.json()) as never);
}
