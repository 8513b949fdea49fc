#!/bin/sh
# Cargo with the toolchain that set-up chose and our target directory.
set -eu
. "$(dirname "$0")/lib.sh"

has cargo || fail "no cargo found: install Rust with rustup, or Debian's cargo-web and rustc-web"
exec cargo "$@"
