# What can be done here. Each target that is meant for people has a "##" comment; `make` shows them.

DATA      ?= ./data
BENCH     ?= .
BENCHTIME ?= 2s
KNOWN     ?= 1000000
INGESTED  ?= 20000
SOURCES   ?= 10000
KILLS     ?= 100
DELIVERIES ?= 5000
MOVED     ?= 20000
COPIED    ?= 100000
STRICT    ?= 23.10
GO        ?= go
TOOL       = $(GO) tool -modfile=.ci/tools/go.mod
COMPOSE   ?= docker compose -p carillon -f deploy/compose.yaml

# Compression is the same as in what is built, which has no cgo. The other one is 40 files of C, which take half a minute to
# be compiled, and again with the race detector.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -tags=pebblegozstd

# What is measured is what `make build` builds: without cgo Pebble's caches lie in Go's heap.
bench bench-%: export CGO_ENABLED = 0

# Two suites: `make test` runs the files without the build tag nightly, with -short, and decides whether a change is right.
# `make nightly` runs the packages that have files with it, whole: kills, moves, bursts, hostile pages, all of each property.
NIGHTLY  = $(shell grep -rlE --include='*_test.go' '^//go:build nightly|testing\.Short\(\)' . | xargs -n 1 dirname | sort -u)
FIRST    = -short -timeout 3m
WHOLE    = -tags nightly,pebblegozstd -timeout 30m
# One Postgres server for all packages of a run.
BESIDE   = $(GO) run ./projections/pgtest/withpostgres
# The race detector needs a C compiler, which a fresh machine may not have.
RACE    := $(shell command -v "$$($(GO) env CC)" >/dev/null 2>&1 && echo -race)
BENCHES  = $(shell grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u)
TORTURES = $(shell grep -rl --include='*_test.go' CARILLON_TORTURE_KILLS . | xargs -n 1 dirname | sort -u)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Use it

.PHONY: run
run: postgres build ## Start Carillon on this machine, with an API key ready to use (DATA=./data)
	bin/carillon serve --dev --data-dir '$(DATA)'

.PHONY: demo
demo: postgres build ## Show the whole way, from a web page to signed webhooks, in the terminal
	bin/carillon demo --data-dir '$(DATA)'

.PHONY: up
up: ## Start a three-node EventStoreDB cluster, Postgres and Carillon in containers
	$(COMPOSE) up --build

.PHONY: build
build: ## Build bin/carillon
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/carillon ./cmd/carillon

##@ Work on it

.PHONY: test
test: postgres ## Run the tests that decide whether a change is right
	@sh deploy/install-chromium.sh --look
	$(BESIDE) $(GO) test $(FIRST) ./...

.PHONY: nightly
nightly: postgres ## Run what takes long: kills, moves, bursts, hostile pages
	$(BESIDE) $(GO) test $(WHOLE) $(NIGHTLY)

.PHONY: check
check: tidy lint sumtypes dead fresh chromium race nightly ## Everything that must hold before a commit: this is what the CI runs

.PHONY: bench
bench: postgres ## Measure (BENCH=regexp, BENCHTIME=2s)
	$(GO) test -p 1 -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -timeout 30m $(BENCHES)

.PHONY: bench-collect
bench-collect: postgres ## Measure reading pages and calendars, on one core (the floors: 800 pages/s; 10,000 events with 1,000 rules in 1 s), walking a sitemap of 5,000 pages (30 s), 200 sites beside 20 that do not answer (1.2 times as long as alone), a visit of a source with 10,000 walks behind it (5 ms), a server that reads eight pages of 10 MiB (500 MB), one that knows a million happenings (KNOWN; start in 1 s, 300 MB), happenings into a feed's list (INGESTED; 2,000/s), as news, and told by two, a sitemap of 5,000 pages with Postgres (30 s, 200 MB; killed, 1 % again), from a change to its webhook (p99 2 s at 100/s), and SOURCES at 1,000 hosts watched for a month (20 % of a core, 300 MB, 1 GB)
	$(GO) test -run '^$$' -bench 'Extract|Calendar' -cpu 1 -benchtime $(BENCHTIME) ./command/collect/...
	$(GO) test -run '^$$' -bench WalkSitemap -benchtime 3x ./command/collect/sitemap
	$(GO) test $(WHOLE) -count=1 -run SlowSitesHoldBackNoVisits -v ./cmd/internal/adapters
	$(GO) test -run '^$$' -bench VisitOfAnOldSource -benchtime 100x ./cmd/internal/adapters
	$(GO) test $(WHOLE) -count=1 -run ServeBesideHostilePages -v ./cmd/internal/app
	KNOWN=$(KNOWN) $(GO) test -run '^$$' -bench Known -benchtime 3x -timeout 60m ./cmd/internal/app
	$(GO) test -run '^$$' -bench Ingest -benchtime $(INGESTED)x -timeout 30m ./cmd/internal/app
	$(GO) test -run '^$$' -bench 'WalkOf5000' -benchtime 1x -timeout 30m ./cmd/internal/app
	$(GO) test -run '^$$' -bench Change -benchtime 1500x -timeout 30m ./cmd/internal/app
	$(GO) test -run '^$$' -bench Watch -benchtime $(SOURCES)x -timeout 60m ./cmd/internal/app

.PHONY: bench-copy
bench-copy: ## Measure copying an event store: one append after the other, in order with many on their way, and compared
	$(GO) test -run '^$$' -bench Copy -benchtime 1x -count 3 -timeout 30m ./eventstore/copying

.PHONY: generate
generate: ## Make generated files anew
	$(GO) generate ./...

.PHONY: fmt
fmt: ## Format the source
	$(TOOL) golangci-lint fmt

.PHONY: lint
lint: ## Check style, formatting and what go vet finds (golangci-lint, pinned in .ci/tools; the first run builds it)
	$(TOOL) golangci-lint run

# golangci-lint has this check as well, but sees no switch over the events of another package.
.PHONY: sumtypes
sumtypes: ## Look for switches over events or commands that leave one out
	$(TOOL) go-check-sumtype -default-signifies-exhaustive=false ./...

.PHONY: dead
dead: ## Look for functions that neither a program nor a test reaches (deadcode, pinned in .ci/tools)
	@unreached=$$($(TOOL) deadcode -tags nightly,pebblegozstd -test ./...) && \
		if [ -n "$$unreached" ]; then echo "$$unreached"; echo "Nothing calls these: use them or delete them."; exit 1; fi

.PHONY: vuln
vuln: ## Look for known vulnerabilities that the program reaches (govulncheck, pinned in .ci/tools; VULNDB=file:///… where vuln.go.dev is out of reach)
	$(TOOL) govulncheck $(if $(VULNDB),-db '$(VULNDB)') ./...

.PHONY: torture
torture: postgres ## Kill servers, event store and Postgres under load, and count what is lost (KILLS=100)
	CARILLON_TORTURE_KILLS=$(KILLS) $(GO) test $(WHOLE) -p 1 -count=1 -timeout 60m -run 'Torture|KillsInARotation|ThatAreCutOff' -v $(TORTURES)

.PHONY: torture-delivery
torture-delivery: postgres ## Kill, stop and cut off two servers, event store and Postgres under load: a table of what was lost and what came again (KILLS=50)
	CARILLON_TORTURE_KILLS=$(KILLS) $(GO) test $(WHOLE) -count=1 -timeout 60m -run TortureDelivery -v ./cmd/internal/app

.PHONY: torture-collect
torture-collect: postgres ## Kill servers that collect, one and one of two, again and again: what comes of it is compared with a quiet run (KILLS=50)
	CARILLON_TORTURE_KILLS=$(KILLS) $(GO) test $(WHOLE) -count=1 -timeout 60m -run TortureCollect -v ./cmd/internal/app

.PHONY: torture-move
torture-move: postgres ## Move to a copied event store, and to a restored Postgres, beside many deliveries: none is sent again (MOVED=20000)
	CARILLON_TORTURE_MOVED=$(MOVED) $(GO) test $(WHOLE) -count=1 -timeout 30m -run MovesOfManyDeliveries -v ./cmd/internal/app

.PHONY: torture-copy
torture-copy: ## Copy a large scavenged event store, there and back, with subscribers that go on across each move (COPIED=100000)
	CARILLON_TEST_COPIED=$(COPIED) $(GO) test -count=1 -timeout 30m -run AcrossTheMove -v -parallel 1 ./eventstore/copying

.PHONY: bench-feeds
bench-feeds: postgres ## Measure item lists through HTTP at 16 connections, every page, order and status, and the rebuild of items
	$(GO) test -run '^$$' -bench ItemLists -benchtime 5000x -timeout 30m ./cmd/internal/httpapi
	$(GO) test -run '^$$' -bench Rebuild -benchtime $(BENCHTIME) -timeout 30m ./projections/items

.PHONY: bench-console
bench-console: postgres ## Measure every page of the console, with every filter, on a history of a million deliveries: bytes (100,000 at most), median and p99 ms (50), processor time
	$(GO) test -run '^$$' -bench Pages -benchtime 40x -timeout 30m ./cmd/internal/console

.PHONY: bench-delivery
bench-delivery: postgres ## Measure delivery end to end, and what a server takes at rest: throughput, fan-out, latency, memory, every signature verified
	$(GO) test -run '^$$' -bench 'Bare|Delivery|Latency|Served|FanOut|History|OneHangs|Idle' -benchtime $(DELIVERIES)x -timeout 30m ./cmd/internal/app

.PHONY: bench-hostile
bench-hostile: postgres ## Attack a whole server and measure what others notice: 10,000 made-up keys a second (others' p99 within twice), 1,000 clients that don't read (50 MB)
	$(GO) test -run '^$$' -bench Hostile -benchtime 1x -timeout 30m ./cmd/internal/app

.PHONY: test-eventstore
test-eventstore: ## Hold a real EventStoreDB to the store's contract (URL=esdb://user:password@host:2113?tls=true)
	@test -n '$(URL)' || { echo 'name a server: make test-eventstore URL=esdb://localhost:2113?tls=false' >&2; exit 2; }
	CARILLON_TEST_EVENTSTORE_URL='$(URL)' $(GO) test -count=1 -timeout 10m ./eventstore/esdb/... ./eventstore/storetest/...

.PHONY: test-strict
test-strict: postgres ## Run the tests beside a node that is as unkind as real servers are (STRICT=23.10 or 25.0)
	CARILLON_TEST_STRICT='$(STRICT)' $(GO) test -timeout 10m ./eventstore/... ./projections/... ./cmd/...

# Parts of the above.

.PHONY: postgres
postgres:
	@sh deploy/install-postgres.sh

.PHONY: chromium
chromium: ## Install a Chromium where there is none and it can be: the tests of the console in a browser want one
	@sh deploy/install-chromium.sh

# Without the checks of go vet that go test makes by itself: lint makes all of them.
.PHONY: race
race: postgres
	@test -n '$(RACE)' || echo 'No C compiler: the tests run without the race detector.'
	$(BESIDE) $(GO) test $(RACE) -vet=off -short -timeout 10m ./...

.PHONY: tidy
tidy:
	$(GO) mod tidy -diff
	cd .ci/tools && $(GO) mod tidy -diff

# Compares with the state before, not with the last commit, so that it can be run at any time.
.PHONY: fresh
fresh:
	@state() { git status --porcelain && git diff; } && before=$$(state) && $(MAKE) generate && \
		if [ "$$before" != "$$(state)" ]; then git status --short; echo "Generated files were stale and have been made anew: commit them."; exit 1; fi
