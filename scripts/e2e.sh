#!/bin/sh
# Runs the browser tests on the debug server, or on the one that CHATGXY_BIN names.
#
#   scripts/e2e.sh [PLAYWRIGHT ARGUMENT...]
set -eu
. "$(dirname "$0")/lib.sh"

CHROMIUM=$(find_chromium) || fail "no browser for the tests: run scripts/setup.sh browser, or set CHROMIUM to Chromium's program"
CHATGXY_BIN=${CHATGXY_BIN:-$CARGO_TARGET_DIR/debug/chatgxy}
export CHROMIUM CHATGXY_BIN

cd "$root/end2end"
npx --no-install tsc --noEmit
npx --no-install playwright test "$@"
