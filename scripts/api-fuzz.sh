#!/bin/sh
# Sends made-up requests, good and bad ones, to every operation of the API's own description, and fails on any 5xx, on an answer that
# the description does not allow, and on a panic. Bounded in time; the server is a private one on 127.0.0.1.
#
#   scripts/api-fuzz.sh [SECONDS]
set -eu
. "$(dirname "$0")/lib.sh"

seconds=${1:-60}
st=$cache/schemathesis/bin/st
[ -x "$st" ] || fail "schemathesis missing: run scripts/setup.sh schemathesis"
binary=${CHATGXY_BIN:-$CARGO_TARGET_DIR/debug/chatgxy}
dir=$(mktemp -d "${TMPDIR:-/tmp}/chatgxy-api.XXXXXX")
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

cat >"$dir/rules.yml" <<'RULES'
rules: []
fallback: {content: "An answer."}
RULES
server=
stop() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

run() {
  env -u DATABASE_URL CHATGXY_ADDR="127.0.0.1:$port" CHATGXY_DATA_DIR="$dir/data" CHATGXY_STATIC_RULES="$dir/rules.yml" CHATGXY_LOG=warn \
    CHATGXY_REQUESTS_A_MINUTE=100000000 CHATGXY_TURNS_AT_ONCE=1000 CHATGXY_TOKENS_A_DAY=1000000000000 "$binary" "$@"
}
run serve >"$dir/out" 2>"$dir/log" &
server=$!
tries=0
until curl -sf "http://127.0.0.1:$port/readyz" >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ $tries -lt 200 ] || fail "the server does not come up: $(cat "$dir/log")"
  sleep 0.1
done
echo 'correct horse' | run user add fuzz@example.org --password-stdin >/dev/null
key=$(run key add fuzz@example.org)

# What a description cannot say is left out: a body may be one of two shapes, and 406 or 415 are not among the answers to garbage.
if ! "$st" run "http://127.0.0.1:$port/api/openapi.json" --header "x-api-key: $key" --max-time "$seconds" --workers 2 --request-timeout 30 \
  --phases examples,coverage,fuzzing --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
  --warnings off --no-shrink --suppress-health-check all --generation-database none --no-color >"$dir/report" 2>&1; then
  cat "$dir/report"
  fail "the API does not keep to its description"
fi
kill -0 "$server" 2>/dev/null || fail "the server is gone: $(tail -5 "$dir/log")"
if grep -q 'panicked' "$dir/log"; then
  grep 'panicked' "$dir/log" | head -5
  fail "a handler panicked"
fi
grep -E "Test cases|Operations|tested|passed|issues" "$dir/report"
