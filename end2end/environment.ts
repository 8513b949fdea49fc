// What scripts/e2e.sh found.

export function need(name: "CHATGXY_BIN" | "CHROMIUM"): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run the browser tests with "make e2e"`);
  return value;
}
