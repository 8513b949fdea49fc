#!/bin/sh
# Builds and serves, then rebuilds and restarts whenever a source file changes. The old server runs on while the new
# one is built, and stays if the build fails.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root"

site=$CARGO_TARGET_DIR/site
mark=$(mktemp)
server=

build() {
  scripts/cargo.sh build -p site &&
    scripts/cargo.sh build -p frontend --target "$wasm_target" &&
    "$CARGO_TARGET_DIR/debug/site" --dev "$CARGO_TARGET_DIR/$wasm_target/debug/frontend.wasm" style public "$site" &&
    scripts/cargo.sh build -p server
}

restart() {
  stop
  "$CARGO_TARGET_DIR/debug/chatgxy" serve &
  server=$!
}

stop() {
  [ -n "$server" ] || return 0
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}

changed() {
  [ -n "$(find app server frontend scripts/site style public migrations Cargo.toml Cargo.lock .cargo \
    -newer "$mark" -type f ! -name '.*' -print 2>/dev/null | head -n 1)" ]
}

trap 'stop; rm -f "$mark"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

while :; do
  touch "$mark"
  if build; then
    restart
  else
    say "The build failed; waiting for the next change"
  fi
  until changed; do
    sleep 1
  done
  say "Rebuilding"
done
