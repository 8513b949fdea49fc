# Shared by the scripts here: where builds go, which toolchain builds them, how messages look. To be sourced.

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/chatgxy
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
export CARGO_TARGET_DIR

wasm_target=wasm32-unknown-unknown

say() { printf '==> %s\n' "$*" >&2; }

# One line that says what to do, then the end.
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

is_debian() { [ -r /etc/debian_version ] && has apt-get; }

can_install() { is_debian && [ "$(id -u)" = 0 ]; }

# rustup's own directory is not on the path of every non-interactive shell.
if ! has cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then
  PATH=$HOME/.cargo/bin:$PATH
  export PATH
fi

# Debian's compiler builds the client where asked for (WASM_STD=debian), or where set-up had to fall back to it.
# The same compiler then builds the server, so that both share one target directory.
use_chosen_toolchain() {
  if [ "${WASM_STD:-}" != debian ] && [ "$(cat "$cache/toolchain" 2>/dev/null)" != debian ]; then
    return 0
  fi
  if has rustup && rustup toolchain list | grep -q '^debian\b'; then
    RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-debian}
    export RUSTUP_TOOLCHAIN
  fi
}
use_chosen_toolchain

# The browser for the tests: CHROMIUM, or the first one found.
find_chromium() {
  if [ -n "${CHROMIUM:-}" ]; then
    echo "$CHROMIUM"
    return
  fi
  for name in chromium chromium-browser google-chrome; do
    if has "$name"; then
      command -v "$name"
      return
    fi
  done
  return 1
}

# The directory of PostgreSQL's server programs, which Debian keeps off the path.
find_postgres() {
  for dir in "$(dirname "$(command -v initdb || true)")" /usr/lib/postgresql/*/bin; do
    if [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ]; then
      echo "$dir"
      return
    fi
  done
  return 1
}
