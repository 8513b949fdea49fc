#!/bin/sh
# Cargo with the toolchain that set-up chose and our target directory.
set -eu
. "$(dirname "$0")/lib.sh"

has cargo || fail "no cargo found: install Rust with rustup, or Debian's cargo-web and rustc-web"

# Cargo names what it makes of our crates by their place in the workspace, not by the clone: in a shared target directory it would
# take the crates of another clone for these. So after a change of clones ours are made again; the dependencies are not.
mkdir -p "${CARGO_TARGET_DIR:=target}"
if [ "$(cat "$CARGO_TARGET_DIR/clone" 2>/dev/null)" != "$PWD" ]; then
  find app server frontend scripts/site -name target -prune -o -name '*.rs' -exec touch {} +
  echo "$PWD" >"$CARGO_TARGET_DIR/clone"
fi
exec cargo "$@"
