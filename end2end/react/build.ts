// The page as one HTML text: its program is built anew for each run of the tests.

import { build } from "esbuild";
import { fileURLToPath } from "node:url";

export async function reactPage(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("page.tsx", import.meta.url))],
    bundle: true,
    write: false,
    format: "esm",
    platform: "browser",
    target: "es2022",
    jsx: "automatic",
    // React says more of what is wrong with a page.
    define: { "process.env.NODE_ENV": '"development"' },
    logLevel: "error",
  });
  const program = outputFiles[0]?.text.replaceAll("</script", "<\\/script") ?? "";
  return `<!doctype html><html lang="en"><title>React</title><link rel="icon" href="data:,"><div id="root"></div><script type="module">${program}</script></html>`;
}
