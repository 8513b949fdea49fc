// The server under test: the built binary, on a free port and with data of its own.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { need } from "./environment";

const RULES = fileURLToPath(new URL("rules.yml", import.meta.url));
const READY = /serves (http:\/\/\S+)/;
const START_MS = 20_000;
const STOP_MS = 5_000;

export class Server {
  readonly #lines: string[] = [];

  private constructor(
    readonly url: string,
    private readonly process: ChildProcess,
    private readonly data: string,
  ) {}

  // Without rules the demo model answers, as on a first run. `extra` are settings of this one server.
  static async start(rules: string | null = RULES, extra: Record<string, string> = {}): Promise<Server> {
    const data = await mkdtemp(join(tmpdir(), "chatgxy-e2e-"));
    // The server refuses names that it does not know, so it gets only what is meant for it.
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith("CHATGXY_") && name !== "DATABASE_URL");
    const child = spawn(need("CHATGXY_BIN"), ["serve"], {
      env: {
        ...Object.fromEntries(own),
        CHATGXY_ADDR: "127.0.0.1:0",
        CHATGXY_DATA_DIR: data,
        CHATGXY_MODEL: "static",
        CHATGXY_LOG: "info",
        // All tests come from one address.
        CHATGXY_REQUESTS_A_MINUTE: "1000000",
        CHATGXY_TEST_TOOLS: "1",
        ...(rules === null ? {} : { CHATGXY_STATIC_RULES: rules }),
        ...extra,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const lines: string[] = [];
    try {
      const url = await new Promise<string>((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error("the server did not start in time")), START_MS);
        const read = (chunk: Buffer) => {
          lines.push(...chunk.toString().split("\n").filter(Boolean));
          const ready = READY.exec(lines.join("\n"))?.[1];
          if (ready) {
            clearTimeout(timer);
            resolve(ready);
          }
        };
        child.stdout.on("data", read);
        child.stderr.on("data", read);
        child.once("error", reject);
        child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
      });
      const server = new Server(url, child, data);
      server.#lines.push(...lines);
      for (const stream of [child.stdout, child.stderr]) {
        stream.removeAllListeners("data");
        stream.on("data", (chunk: Buffer) => server.#lines.push(...chunk.toString().split("\n").filter(Boolean)));
      }
      return server;
    } catch (error) {
      child.kill("SIGKILL");
      await rm(data, { recursive: true, force: true });
      throw new Error(`${String(error)}\n${lines.join("\n")}`);
    }
  }

  // How much it has logged, to read only what comes after.
  get mark(): number {
    return this.#lines.length;
  }

  logSince(mark: number): string[] {
    return this.#lines.slice(mark);
  }

  async stop(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const ended = once(this.process, "exit");
      this.process.kill("SIGTERM");
      const timer = setTimeout(() => this.process.kill("SIGKILL"), STOP_MS);
      await ended;
      clearTimeout(timer);
    }
    await rm(this.data, { recursive: true, force: true });
  }
}
