#!/bin/sh
# Two servers on one PostgreSQL behind a small proxy (HAProxy), each request to the other one in turn.
#
#   scripts/several.sh            serves until you stop it, and says where
#   scripts/several.sh --check    asks through the proxy, follows the answer in both, stops it, kills one of them; fails if a word is lost
#
# Everything is thrown away at the end. The server is the debug one, or the one that CHATGXY_BIN names.
set -eu
. "$(dirname "$0")/lib.sh"

[ -n "${CHATGXY_TEST_POSTGRES:-}" ] || exec "$root/scripts/with-postgres.sh" "$root/scripts/several.sh" "$@"
has haproxy || fail "HAProxy missing: run scripts/setup.sh proxy"
server=${CHATGXY_BIN:-$CARGO_TARGET_DIR/debug/chatgxy}
[ -x "$server" ] || fail "no server to start: run make server site"

dir=$(mktemp -d "${TMPDIR:-/tmp}/chatgxy-several.XXXXXX")
pids=
stop() {
  for pid in $pids; do
    kill "$pid" 2>/dev/null || true
  done
  wait
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# A database of its own: the tests fill others on the same server.
database=several_$$
psql=$(command -v psql || echo "$(find_postgres)/psql")
"$psql" -q "$CHATGXY_TEST_POSTGRES" -c "create database $database" || fail "the database could not be made"
url=$(echo "$CHATGXY_TEST_POSTGRES" | sed "s|/[^/?]*\(?.*\)\{0,1\}\$|/$database\1|")

base=$((30000 + $(od -An -N2 -tu2 /dev/urandom) % 20000))
proxy=$base one=$((base + 1)) two=$((base + 2))
at=http://127.0.0.1:$proxy

# run PORT [ARGUMENT...]: the server on that port, in place of the shell: always in the background, a pipe or a substitution.
run() {
  port=$1
  shift
  exec env -u CHATGXY_BIN -u CHATGXY_TEST_POSTGRES DATABASE_URL="$url" CHATGXY_ADDR=127.0.0.1:"$port" CHATGXY_DATA_DIR="$dir/$port" \
    CHATGXY_TRUSTED_PROXIES=127.0.0.1 CHATGXY_LEASE_S=2 CHATGXY_LOG=warn CHATGXY_MODEL=static \
    ${RULES:+CHATGXY_STATIC_RULES="$RULES"} "$server" "$@"
}

cat >"$dir/haproxy.cfg" <<CONFIG
defaults
  mode http
  option forwardfor
  option redispatch 1
  retries 3
  timeout connect 2s
  timeout client 1h
  timeout server 1h
frontend people
  bind 127.0.0.1:$proxy
  default_backend servers
backend servers
  balance roundrobin
  option httpchk GET /healthz
  default-server check inter 200ms fall 1 rise 1
  server one 127.0.0.1:$one
  server two 127.0.0.1:$two
CONFIG

RULES=
if [ "${1:-}" = --check ]; then
  RULES=$dir/rules.yml
  words=$(i=0; while [ $i -lt 300 ]; do printf 'word%d ' $i; i=$((i + 1)); done)
  printf 'fallback: {content: "short"}\nrules:\n  - {match: {query: "long"}, response: {content: "%s"}, stream: {chunk_chars: 8, delay_ms: 20}}\n' "$words" >"$RULES"
fi
run "$one" serve >"$dir/one.log" 2>&1 &
first=$!
run "$two" serve >"$dir/two.log" 2>&1 &
pids="$first $!"
haproxy -f "$dir/haproxy.cfg" >"$dir/proxy.log" 2>&1 &
pids="$pids $!"

# until COMMAND...: tries it for 20 s.
until_true() {
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { cat "$dir"/*.log >&2; fail "it did not come true: $*"; }
    sleep 0.1
  done
}
for port in "$one" "$two" "$proxy"; do
  until_true curl -fs "http://127.0.0.1:$port/healthz"
done
say "Two servers behind $at"
if [ "${1:-}" != --check ]; then
  wait
  exit
fi

echo "correct horse battery" | run "$one" user add ada@example.org --password-stdin >/dev/null
key=$(run "$two" key add ada@example.org 2>/dev/null | grep -o 'chatgxy_[A-Za-z0-9_-]*' | head -1)
call() {
  path=$1
  shift
  curl -fsS -H "x-api-key: $key" "$at$path" "$@"
}
turn_of() { sed 's/.*"turn":{"id":"\([^"]*\)".*/\1/'; }

say "Asking through the proxy, following the answer in both servers"
turn=$(call /api/fn/chat/send -d "exchange=chat&query=long" | turn_of)
for port in "$one" "$two"; do
  curl -sN -H "x-api-key: $key" "http://127.0.0.1:$port/chatgxy/turns/$turn/events?after=0" >"$dir/seen.$port" &
  pids="$pids $!"
done
for port in "$one" "$two"; do
  until_true grep -q 'word20' "$dir/seen.$port"
done

say "Stopping it through the proxy, twice, so that either server is asked"
call /api/fn/chat/stop -d "turn=$turn" >/dev/null
call /api/fn/chat/stop -d "turn=$turn" >/dev/null
for port in "$one" "$two"; do
  until_true grep -q '"end"' "$dir/seen.$port"
done
call /api/chat/chat/messages >"$dir/messages.1"
call /api/chat/chat/messages >"$dir/messages.2"
cmp "$dir/messages.1" "$dir/messages.2" || fail "the two servers tell different stories"
grep -q '"state":"interrupted"' "$dir/messages.1" || fail "it was not stopped"
grep -q 'word20' "$dir/messages.1" || fail "words were lost"

say "Killing one server in the middle of an answer; the other one ends it and goes on"
turn=$(curl -fsS -H "x-api-key: $key" "http://127.0.0.1:$one/api/fn/chat/send" -d "exchange=other&query=long" | turn_of)
curl -sN -H "x-api-key: $key" "http://127.0.0.1:$two/chatgxy/turns/$turn/events?after=0" >"$dir/watched" &
pids="$pids $!"
until_true grep -q 'word20' "$dir/watched"
kill -9 "$first"
until_true grep -q '"lost"' "$dir/watched"
until_true call "/api/chat?query=again" -d '{"exchange_id": "other", "query": "again"}' -H 'content-type: application/json'
call /api/chat/other/messages | grep -q 'word20' || fail "words were lost"
say "Nothing was lost"
