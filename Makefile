# The commands of this repository; `make help` lists them. Each sets up what it needs first (scripts/setup.sh).

.DEFAULT_GOAL := help

# Outside the clone, so that several clones share one build and none copies it along.
ifndef CARGO_TARGET_DIR
CARGO_TARGET_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/chatgxy/target
endif
export CARGO_TARGET_DIR := $(abspath $(CARGO_TARGET_DIR))

cargo := scripts/cargo.sh
host := -p app -p server --features app/ssr
wasm := -p frontend --target wasm32-unknown-unknown
client := $(CARGO_TARGET_DIR)/wasm32-unknown-unknown
site := $(CARGO_TARGET_DIR)/site
bundler := $(CARGO_TARGET_DIR)/debug/site
optimizer := scripts/site/node_modules/binaryen/bin/wasm-opt

.NOTPARALLEL:
.PHONY: help run dev test bench build setup toolchain server site lint unit http fuzz e2e

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: site server ## Build what changed and serve on http://127.0.0.1:3000, data in ./data
	@exec $(CARGO_TARGET_DIR)/debug/chatgxy serve

dev: toolchain ## Serve, and rebuild on every change
	@exec scripts/dev.sh

test: ## Run every check: format, lints, unit, database, HTTP and browser tests
	@scripts/setup.sh
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory site
	@scripts/with-postgres.sh $(MAKE) --no-print-directory unit http
	@$(MAKE) --no-print-directory fuzz e2e
	@echo "All checks passed: format, lints (ssr and hydrate), unit, database (SQLite and PostgreSQL), HTTP, made-up requests and browser tests."

build: site ## Make the one release binary, target/release/chatgxy, with the site inside
	$(cargo) build --release -p server
	@mkdir -p target/release
	@cmp -s $(CARGO_TARGET_DIR)/release/chatgxy target/release/chatgxy || cp $(CARGO_TARGET_DIR)/release/chatgxy target/release/chatgxy
	@echo "target/release/chatgxy: $$(du -h target/release/chatgxy | cut -f1)"

bench: build ## Measure speed and memory of the release binary
	@scripts/bench.sh

setup: ## Set up the toolchain, the browser, PostgreSQL and the npm packages
	@scripts/setup.sh

toolchain:
	@scripts/setup.sh tools toolchain

# The debug server reads the site from disk, so the two can be built in any order.
server: toolchain
	$(cargo) build -p server

# The client as people get it, so that the tests see the same.
site: toolchain
	$(cargo) build -p site
	$(cargo) build $(wasm) --profile wasm-release
	@scripts/setup.sh optimizer
	@$(bundler) $(optimizer) $(client)/wasm-release/frontend.wasm style public $(site)

lint: toolchain ## Check format and lints, for the server and for the browser
	$(cargo) fmt --all --check
	$(cargo) clippy $(host) --all-targets -- -D warnings
	$(cargo) clippy -p site --all-targets -- -D warnings
	$(cargo) clippy $(wasm) -- -D warnings

unit: toolchain ## Run the tests inside the crates
	@scripts/setup.sh postgres
	$(cargo) test -p site
	scripts/with-postgres.sh $(cargo) test $(host) --lib --bins

http: site server ## Run the tests on real servers and on both databases
	@scripts/setup.sh postgres proxy
	$(cargo) build $(host) --example scripted_model --example scripted_mcp
	scripts/with-postgres.sh $(cargo) test $(host) --test '*'
	scripts/several.sh --check

fuzz: site server ## Send made-up requests to every operation of the API (SECONDS=60)
	@scripts/setup.sh schemathesis
	scripts/api-fuzz.sh $(SECONDS)

e2e: site server ## Run the browser tests (ARGS="..." goes to Playwright)
	@scripts/setup.sh npm browser
	scripts/e2e.sh $(ARGS)
