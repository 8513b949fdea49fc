#!/bin/sh
# Measures the release binary that `make build` left, and prints one table.
set -eu
cd "$(dirname "$0")/.."

CHATGXY_BENCH_BINARY=$PWD/target/release/chatgxy exec scripts/cargo.sh bench -p server --bench product
