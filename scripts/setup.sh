#!/bin/sh
# Sets up what building and testing need, and says what it does. Doing it again changes nothing.
#
#   scripts/setup.sh [STEP...]     without a step: all of them
#
#   tools       C compiler and make
#   toolchain   the WASM target of the Rust compiler, rustfmt and clippy
#   optimizer   Binaryen, which makes the client smaller, as pinned in scripts/site/package-lock.json
#   npm         the browser tests' packages, as pinned in end2end/package-lock.json
#   browser     Chromium for the browser tests
#   postgres    PostgreSQL's server for the database tests (no service is started)
#   proxy       HAProxy, for the demonstration with several servers
#   schemathesis  the program that makes up requests from the API's description, as pinned in scripts/schemathesis.txt
#
# WASM_STD=debian takes Debian's Rust compiler for everything instead of asking rustup for the WASM target.
set -eu
. "$(dirname "$0")/lib.sh"

debian_rust="rustc-web cargo-web rust-web-src rust-web-llvm lld-22 rust-web-clippy rustfmt-web"

# install WHAT PACKAGE...: Debian packages, after a fresh package list only if the present one does not do.
install() {
  what=$1
  shift
  can_install || fail "$what missing: $(how_to_install "$@")"
  say "Installing $what (Debian packages: $*)"
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  if ! apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1; then
    apt-get update >/dev/null || say "Could not refresh the package list, trying with the one there is"
    apt-get install -y --no-install-recommends "$@" >/dev/null || fail "$what: apt-get could not install $*"
  fi
}

how_to_install() {
  if is_debian; then
    echo "run as root: apt-get install $*"
  else
    echo "install your system's counterparts of Debian's packages $*"
  fi
}

tools() {
  if ! has cc || ! has make; then
    install "C compiler and make" gcc libc6-dev make
  fi
}

# True when the current compiler has a matching standard library for the browser.
wasm_std_works() {
  has rustc || return 1
  probe=$(mktemp -d)
  if echo 'pub fn text() -> String { String::new() }' |
    rustc --crate-name probe --crate-type rlib --target $wasm_target -o "$probe/probe.rlib" - >/dev/null 2>&1; then
    found=0
  else
    found=1
  fi
  rm -rf "$probe"
  return $found
}

toolchain() {
  if [ "${WASM_STD:-}" = debian ]; then
    debian_toolchain
  elif ! wasm_std_works; then
    rustup_target || debian_toolchain
  fi
  wasm_std_works || fail "this Rust compiler cannot build for the browser: run rustup target add $wasm_target"
  lint_tools
}

rustup_target() {
  has rustup || return 1
  say "Adding the browser target to the Rust toolchain (rustup target add $wasm_target)"
  if has timeout; then
    timeout 300 rustup target add $wasm_target
  else
    rustup target add $wasm_target
  fi || {
    say "rustup could not add it"
    return 1
  }
}

debian_toolchain() {
  if ! has_debian_rust; then
    if ! is_debian; then
      fail "the Rust compiler lacks the browser target: run rustup target add $wasm_target"
    fi
    # shellcheck disable=SC2086 # a list of package names
    install "Debian's Rust toolchain" $debian_rust
  fi
  if [ "${WASM_STD:-}" != debian ]; then
    mkdir -p "$cache"
    echo debian >"$cache/toolchain"
  fi
  if has rustup && ! rustup toolchain list | grep -q '^debian\b'; then
    say "Linking Debian's compiler as rustup's toolchain \"debian\""
    rustup toolchain link debian /usr
  fi
  use_chosen_toolchain
  wasm_std_works || build_wasm_std
}

has_debian_rust() {
  for file in /usr/bin/rustc /usr/bin/cargo /usr/bin/cargo-fmt /usr/bin/cargo-clippy /usr/bin/rust-lld /usr/lib/rustlib/src/rust/library/std/Cargo.toml; do
    [ -e "$file" ] || return 1
  done
}

# Debian packages the standard library for the host and for WASI only; its sources build the one for the browser.
build_wasm_std() {
  lib=$(/usr/bin/rustc --print target-libdir --target $wasm_target)
  [ -w /usr/lib/rustlib ] ||
    fail "Rust's standard library for the browser is missing: run as root: WASM_STD=debian scripts/setup.sh toolchain"
  say "Building Rust's standard library for the browser from Debian's sources, once (about a minute)"
  build=$(mktemp -d)
  mkdir "$build/src"
  : >"$build/src/lib.rs"
  printf '[package]\nname = "probe"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n' >"$build/Cargo.toml"
  (
    cd "$build"
    RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc CARGO_TARGET_DIR=$build/target RUSTFLAGS='' \
      /usr/bin/cargo build --quiet --release -Zbuild-std=std,panic_abort --target $wasm_target
  ) || {
    rm -rf "$build"
    fail "the standard library for the browser did not build; see above"
  }
  built=$build/target/$wasm_target/release/deps
  rm -f "$built"/libprobe-*
  # Libraries of an earlier compiler version beside the new ones would be ambiguous.
  rm -rf "$lib"
  mkdir -p "$lib"
  cp "$built"/lib*.rlib "$lib/"
  rm -rf "$build"
}

lint_tools() {
  if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
    return
  fi
  has rustup || fail "rustfmt or clippy missing: $(how_to_install rustfmt-web rust-web-clippy)"
  say "Adding rustfmt and clippy (rustup component add)"
  rustup component add rustfmt clippy || fail "rustfmt or clippy missing: run rustup component add rustfmt clippy"
}

node_and_npm() {
  if ! has node || ! has npm; then
    install "Node and npm" nodejs npm
  fi
  version=$(node -p 'process.versions.node.split(".")[0]')
  [ "$version" -ge 20 ] || fail "Node $version is too old: install Node 20 or later"
}

# packages DIR WHAT: what DIR/package-lock.json pins.
packages() {
  node_and_npm
  cd "$root/$1"
  if cmp -s package-lock.json node_modules/.installed-from; then
    return
  fi
  say "Installing $2 (npm packages)"
  PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.installed-from
}

optimizer() { packages scripts/site "Binaryen, which makes the client smaller"; }

npm_packages() { packages end2end "what the browser tests need"; }

browser() {
  if ! find_chromium >/dev/null; then
    is_debian || fail "no browser for the tests: install Chromium, or set CHROMIUM to its program"
    install "Debian's Chromium for the browser tests" chromium
  fi
}

postgres() {
  if [ -n "${CHATGXY_TEST_POSTGRES:-}" ] || find_postgres >/dev/null; then
    return
  fi
  is_debian || fail "PostgreSQL missing: install its server, or set CHATGXY_TEST_POSTGRES to the URL of a database that the tests may fill"
  # The tests start a private server of their own; nobody asked for one that runs with the machine.
  quiet=/etc/postgresql-common/createcluster.d/chatgxy-tests.conf
  if can_install && [ ! -e /etc/postgresql-common ]; then
    mkdir -p "$(dirname $quiet)"
    echo 'create_main_cluster = false' >$quiet
  fi
  install "PostgreSQL for the database tests" postgresql
  rm -f $quiet
}

proxy() {
  if ! has haproxy; then
    is_debian || fail "HAProxy missing: install it, or leave out scripts/several.sh"
    install "HAProxy for the demonstration with several servers" haproxy
  fi
  has curl || install "curl" curl
}

schemathesis() {
  pins=$root/scripts/schemathesis.txt
  venv=$cache/schemathesis
  if cmp -s "$pins" "$venv/.installed-from"; then
    return
  fi
  if ! has python3 || ! python3 -c 'import ensurepip' >/dev/null 2>&1; then
    install "Python with its package installer" python3 python3-venv
  fi
  has curl || install "curl" curl
  say "Installing schemathesis for the API tests (Python packages, in a directory of their own)"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$pins"
  cp "$pins" "$venv/.installed-from"
}

[ $# -gt 0 ] || set -- tools toolchain optimizer npm browser postgres proxy schemathesis
for step in "$@"; do
  case $step in
    tools | toolchain | optimizer | browser | postgres | proxy | schemathesis) ;;
    npm) step=npm_packages ;;
    *) fail "unknown step \"$step\": one of tools, toolchain, optimizer, npm, browser, postgres, proxy, schemathesis" ;;
  esac
  (set -eu && $step)
done
