#!/bin/sh
# Runs the browser tests against the debug server, on a free port and with data of its own.
#
#   scripts/e2e.sh [PLAYWRIGHT ARGUMENT...]
set -eu
. "$(dirname "$0")/lib.sh"

CHROMIUM=$(find_chromium) || fail "no browser for the tests: run scripts/setup.sh browser, or set CHROMIUM to Chromium's program"
CHATGXY_BIN=${CHATGXY_BIN:-$CARGO_TARGET_DIR/debug/chatgxy}
CHATGXY_TEST_PORT=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
CHATGXY_TEST_DATA=$(mktemp -d "${TMPDIR:-/tmp}/chatgxy-e2e.XXXXXX")
export CHROMIUM CHATGXY_BIN CHATGXY_TEST_PORT CHATGXY_TEST_DATA
trap 'rm -rf "$CHATGXY_TEST_DATA"' EXIT

cd "$root/end2end"
npx --no-install tsc --noEmit
npx --no-install playwright test "$@"
