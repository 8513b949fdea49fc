#!/bin/sh
# Runs a command beside a private, throw-away PostgreSQL whose URL is in CHATGXY_TEST_POSTGRES.
#
#   scripts/with-postgres.sh COMMAND [ARGUMENT...]
#
# With CHATGXY_TEST_POSTGRES already set, that database is used and nothing is started.
set -eu
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || fail "usage: scripts/with-postgres.sh COMMAND [ARGUMENT...]"
[ -z "${CHATGXY_TEST_POSTGRES:-}" ] || exec "$@"

bin=$(find_postgres) || fail "PostgreSQL missing: run scripts/setup.sh postgres"
dir=$(mktemp -d "${TMPDIR:-/tmp}/chatgxy-postgres.XXXXXX")
chmod 755 "$dir"

# PostgreSQL refuses to run as root; Debian's package brings a user for it.
as_owner() {
  if [ "$(id -u)" != 0 ]; then
    "$@"
  else
    (cd "$dir" && setpriv --reuid="$owner" --regid="$group" --clear-groups "$@")
  fi
}

stop() {
  as_owner "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}

# A port is free only once it is ours: take random ones until the server could bind one.
start() {
  tries=0
  while [ $tries -lt 10 ]; do
    tries=$((tries + 1))
    port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 10000))
    if as_owner "$bin/pg_ctl" -D "$dir/data" -l "$dir/data/server.log" -w -o "-p $port" start >/dev/null 2>&1; then
      return
    fi
  done
  cat "$dir/data/server.log" >&2
  return 1
}

if [ "$(id -u)" = 0 ]; then
  owner=$(id -u postgres 2>/dev/null || id -u nobody)
  group=$(id -g "$owner")
  mkdir "$dir/data"
  chown "$owner:$group" "$dir/data"
fi
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "$password" >"$dir/password"
[ "$(id -u)" != 0 ] || chown "$owner" "$dir/password"
chmod 600 "$dir/password"

say "Starting a throw-away PostgreSQL for the tests"
as_owner "$bin/initdb" -D "$dir/data" -U chatgxy --auth=scram-sha-256 --pwfile="$dir/password" \
  --encoding=UTF8 --locale=C --no-sync >"$dir/initdb.log" 2>&1 || {
  cat "$dir/initdb.log" >&2
  fail "PostgreSQL could not create its files"
}
# Speed instead of safety: the data lives as long as the tests.
cat >>"$dir/data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
fsync = off
synchronous_commit = off
full_page_writes = off
CONF
start || fail "PostgreSQL could not be started for the tests"

CHATGXY_TEST_POSTGRES=postgres://chatgxy:$password@127.0.0.1:$port/postgres
export CHATGXY_TEST_POSTGRES
"$@"
