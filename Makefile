# What can be done here. Each target that is meant for people has a "##" comment; `make` shows them.

DATA      ?= ./data
BENCH     ?=
BENCHTIME ?= 2s
KNOWN     ?= 1000000
INGESTED  ?= 20000
SOURCES   ?= 10000
KILLS     ?= 100
DELIVERIES ?= 5000
MUTANTS   ?= 200
COPIED    ?= 100000
STRICT    ?= 23.10
IMAGE     ?= carillon
SIGN_KEY  ?=
GO        ?= go
TOOL       = $(GO) tool -modfile=.ci/tools/go.mod
COMPOSE   ?= docker compose -p carillon -f deploy/compose.yaml

# Compression is the same as in what is built, which has no cgo. The other one is 40 files of C, which take half a minute to
# be compiled, and again with the race detector.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -tags=pebblegozstd

# What is tested and measured is what `make build` builds: without cgo Pebble's caches lie in Go's heap, and Go links by
# itself, in 5/6 of the processor time. The race detector needs cgo.
test nightly mutants bench bench-%: export CGO_ENABLED = 0
# Tests live for seconds: the collector of garbage runs a quarter as often, in up to 0.7 GB for a package.
test: export GOGC = 400

# Two suites: `make test` runs the files without the build tag nightly, with -short, and decides whether a change is right.
# `make nightly` runs the packages that have files with it, whole: kills, moves, bursts, hostile pages, all of each property.
NIGHTLY  = $(shell grep -rlE --include='*_test.go' '^//go:build nightly|testing\.Short\(\)' . | xargs -n 1 dirname | sort -u)
# Packages wait as often as they compute, so twice as many as cores run at once. go vet is a part of lint, and debug
# information of no use to a test that only runs. LIMIT ends a test that hangs; a package may take long on a slow machine.
FIRST    = -short -timeout 10m -vet=off -ldflags=-s -p $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))
WHOLE    = -tags nightly,pebblegozstd -timeout 30m
# A test that hangs ends `make test`, with the goroutines of what runs then: none takes so long beside eight busy loops.
LIMIT    = $(GO) run ./cmd/internal/suite/limit 3m
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

# Postgres is installed while Go compiles.
.PHONY: run
run: ## Start Carillon here with an API key (DATA=./data)
	@$(MAKE) -j2 postgres build
	bin/carillon serve --dev --data-dir '$(DATA)'

.PHONY: demo
demo: ## Show a web page become signed webhooks, in the terminal
	@$(MAKE) -j2 postgres build
	bin/carillon demo --data-dir '$(DATA)'

.PHONY: up
up: image ## Start Carillon, Postgres and a store cluster in containers
	@test -e deploy/.env || (umask 077; docker run --rm '$(IMAGE)' init - >deploy/.env) || { rm -f deploy/.env; exit 1; }
	$(COMPOSE) up

.PHONY: image
image: ## Build the container image (IMAGE=carillon)
	$(call oci,bin/image.tar,$(IMAGE),$(shell $(GO) env GOARCH))
	docker load -q -i bin/image.tar

# Without debug information, the first build takes a ninth less.
.PHONY: build
build: ## Build bin/carillon
	CGO_ENABLED=0 $(GO) build -trimpath -gcflags=all=-dwarf=false -ldflags=-w -o bin/carillon ./cmd/carillon

##@ Work on it

.PHONY: test
test: postgres ## Run the tests that decide whether a change is right
	@sh deploy/install-chromium.sh --look
	$(BESIDE) $(LIMIT) $(GO) test -json $(FIRST) ./...

.PHONY: nightly
nightly: postgres ## Run the long tests: kills, moves, bursts, hostile pages
	$(BESIDE) $(GO) test $(WHOLE) $(NIGHTLY)
	$(BESIDE) $(GO) run ./cmd/internal/suite/mutants -n 20 -most 3m

.PHONY: mutants
mutants: postgres ## List what may change unnoticed by a test (MUTANTS=200)
	$(BESIDE) $(GO) run ./cmd/internal/suite/mutants -n $(MUTANTS)

.PHONY: check
check: test rest ## Run all that the CI runs, before a commit

.PHONY: rest
rest: tidy lint sumtypes dead fresh vuln chromium chart race nightly

# Benchmarks of a whole server are in one package and take their sizes from the variables above. make test doesn't link it.
SERVED   = $(GO) test $(WHOLE) -run '^$$' -benchtime 1x -timeout 60m ./cmd/internal/bench -bench
export DELIVERIES INGESTED KNOWN SOURCES

.PHONY: bench
bench: postgres ## List the benchmarks, or measure some (BENCH=regexp)
ifeq ($(BENCH),)
	@for package in $(BENCHES); do grep -hoE '^func Benchmark\w+' $$package/*_test.go | sed "s|^func |$$package |"; done
else
	$(GO) test $(WHOLE) -p 1 -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -timeout 60m $(BENCHES)
endif

.PHONY: bench-collect
bench-collect: postgres ## Measure collecting (KNOWN, INGESTED, SOURCES)
	$(GO) test -run '^$$' -bench 'Extract|Calendar' -cpu 1 -benchtime $(BENCHTIME) ./command/collect/...
	$(GO) test -run '^$$' -bench WalkSitemap -benchtime 3x ./command/collect/sources/sitemap
	$(GO) test $(WHOLE) -count=1 -run SlowSitesHoldBackNoVisits -v ./cmd/internal/adapters
	$(GO) test -run '^$$' -bench VisitOfAnOldSource -benchtime 100x ./cmd/internal/adapters
	$(GO) test $(WHOLE) -count=1 -run ServeBesideHostilePages -v ./cmd/internal/bench
	$(SERVED) 'Known|^BenchmarkIngest|WalkOf5000|Change|Watch'

.PHONY: bench-copy
bench-copy: ## Measure copying an event store
	$(GO) test -run '^$$' -bench Copy -benchtime 1x -count 3 -timeout 30m ./eventstore/copying

.PHONY: generate
generate: ## Write generated files again
	$(GO) generate ./...

.PHONY: fmt
fmt: ## Format the source
	$(TOOL) golangci-lint fmt

# A kept finding names a file, whose nolint comments are read again: each checkout keeps its own.
.PHONY: lint
lint: ## Check style, formatting and words, and run go vet
	GOLANGCI_LINT_CACHE="$$($(GO) env GOCACHE)/lint$(subst /,-,$(CURDIR))" $(TOOL) golangci-lint run
	$(GO) test -run TestWords ./cmd/internal/arch

# golangci-lint has this check as well, but sees no switch over the events of another package.
.PHONY: sumtypes
sumtypes: ## Find switches that leave out an event or a command
	$(TOOL) go-check-sumtype -default-signifies-exhaustive=false ./...

.PHONY: dead
dead: ## Find functions that nothing calls
	@unreached=$$($(TOOL) deadcode -tags nightly,pebblegozstd -test ./...) && \
		if [ -n "$$unreached" ]; then echo "$$unreached"; echo "Nothing calls these: use them or delete them."; exit 1; fi

.PHONY: vuln
vuln: ## Find known vulnerabilities in use (VULNDB=file:///…)
	@found=$$($(TOOL) govulncheck $(if $(VULNDB),-db '$(VULNDB)') ./... 2>&1); code=$$?; echo "$$found"; \
		case "$(VULNDB)$$found" in "govulncheck: fetching vulnerabilities"*) \
			echo "Not looked for: no data base is reached. make vuln VULNDB=file:///DIRECTORY names a copy of one."; exit 0;; \
		esac; exit $$code

# Helm and Kubernetes' types are modules of this folder alone.
.PHONY: chart
chart: ## Render the Helm chart, check it as Kubernetes and Carillon do
	cd .ci/tools/chart && $(GO) test ./...

NFPM     = github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
# The list of modules (SBOM) is read from the binary, and names the tool that read it with its hash, so that the tool is built
# in one way, too. The same commit gives the same tarballs, in any clone.
SBOM     = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
PLATFORMS ?= linux/$(shell $(GO) env GOARCH)

# That of the changelog's first heading. Packages from before its release are older than it.
VERSION = $(shell sed -n 's/^\#\# \[\(.*\)\] - [0-9-]*$$/\1/p; s/^\#\# \[\(.*\)\] - Unreleased$$/\1-dev/p' docs/changelog.md | head -n 1)
# In archives all is of the commit's time, in one order, and root's.
MADE_AT = $(or $(shell git log -1 --format=%ct 2>/dev/null),0)
TAR     = tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$(MADE_AT)
LINUX   = $(patsubst linux/%,%,$(filter linux/%,$(PLATFORMS)))

# Writes the OCI archive $(1) with the image $(2) for the architectures $(3).
define oci
	@set -eu; umask 022; rm -rf bin/image; for arch in $(3); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch GOFLAGS= $(GO) build -trimpath -buildvcs=auto -tags image,pebblegozstd -ldflags '-s -w' \
			-o bin/image/$$arch ./cmd/carillon; set -- "$$@" $$arch=$(CURDIR)/bin/image/$$arch; \
	done; \
	SOURCE_DATE_EPOCH=$(MADE_AT) GOFLAGS= $(GO) run -C .ci/tools/image . $(CURDIR)/bin/image/oci '$(2)' "$$@"; \
	$(TAR) -C bin/image/oci -cf $(1) .
endef

.PHONY: dist
dist: ## Build tarball, packages, image, checksums (SIGN_KEY=…)
	rm -rf bin/dist
	@set -eu; umask 022; for platform in $(PLATFORMS); do \
		os=$${platform%/*}; arch=$${platform#*/}; to=bin/dist/$$os-$$arch; mkdir -p $$to/carillon; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GO) build -trimpath -buildvcs=true -ldflags '-s -w' -o $$to/carillon/carillon ./cmd/carillon; \
		cp LICENSE $$to/carillon; [ $$os != linux ] || cp deploy/carillon.service deploy/carillon.env $$to/carillon; \
		CGO_ENABLED=0 GOFLAGS=-trimpath $(GO) run $(SBOM) bin -json -noserial -notimestamp -output $$to/carillon/sbom.cdx.json $$to/carillon/carillon; \
		$(TAR) -C $$to -c carillon | gzip -9n >bin/dist/carillon-$$os-$$arch.tar.gz; \
		if [ $$os = linux ]; then \
			sed -i s:/usr/local/bin:/usr/bin: $$to/carillon/carillon.service; \
			export ARCH=$$arch FROM=$$to/carillon SOURCE_DATE_EPOCH=$(MADE_AT) PACKAGE=$(VERSION); \
			for kind in deb rpm; do \
				GOFLAGS=-trimpath $(GO) run $(NFPM) package --config deploy/package/nfpm.yaml --packager $$kind \
					--target bin/dist/carillon-$$arch.$$kind; \
			done; \
		fi; rm -r $$to; \
	done
	$(if $(LINUX),$(call oci,bin/dist/carillon-image.tar,carillon:$(VERSION),$(LINUX)))
	cd bin/dist && sha256sum carillon-* >SHA256SUMS && cat SHA256SUMS
	@$(MAKE) sign

# The tag repeats the version and the date of the changelog's first heading, whose section becomes the notes.
.PHONY: release
release: ## Build all tarballs and notes of a clean tag (SIGN_KEY=…)
	@test -z "$$(git status --porcelain)" || { echo "There are changes that are not committed." >&2; exit 1; }
	@sed -n '/^## \[/{p;q;}' docs/changelog.md | grep -q '[0-9]$$' || { echo "Name the day in docs/changelog.md." >&2; exit 1; }
	@test "$$(git describe --exact-match --tags)" = 'v$(VERSION)' || { echo "Tag this commit v$(VERSION)." >&2; exit 1; }
	@$(MAKE) dist PLATFORMS='linux/amd64 linux/arm64 darwin/amd64 darwin/arm64'
	awk '/^## \[/ { n++ } n == 1' docs/changelog.md >bin/dist/NOTES.md

# The password of the key is read from the terminal, or is the first line of standard input.
SUMS       ?= bin/dist/SHA256SUMS
PUBLIC_KEY ?= deploy/minisign.pub
.PHONY: sign
sign:
ifeq ($(SIGN_KEY),)
	@echo "$(SUMS) is NOT signed: name the secret key, as in make dist SIGN_KEY=FILE (make signing-key makes one)." >&2
else
	@test -f '$(PUBLIC_KEY)' || { echo "$(PUBLIC_KEY) is missing: make signing-key SIGN_KEY=FILE makes both keys." >&2; exit 1; }
	@rm -f '$(SUMS).minisig'
	@$(TOOL) minisign -S -s '$(SIGN_KEY)' -x '$(SUMS).minisig' -t "carillon $$(git log -1 --format='%H %cI')" -m '$(SUMS)'
	@$(TOOL) minisign -V -H -p '$(PUBLIC_KEY)' -m '$(SUMS)' || { rm -f '$(SUMS).minisig'; exit 1; }
endif

.PHONY: signing-key
signing-key: ## Make the keys that sign releases (SIGN_KEY=FILE)
	@test -n '$(SIGN_KEY)' || { echo "Name the file of the secret key: make signing-key SIGN_KEY=FILE" >&2; exit 1; }
	@umask 077 && $(TOOL) minisign -G -s '$(SIGN_KEY)' -p '$(PUBLIC_KEY)' && chmod 644 '$(PUBLIC_KEY)'

# Upgrades from the release that TestUpgradeAndRollback names.
.PHONY: try-install
try-install: dist ## Install, upgrade and roll back on a bare Debian (root)
	sh deploy/try-install.sh "$$(sed -n 's/^const releaseBefore = "\(.*\)"/\1/p' cmd/carillon/upgrade_test.go)"

.PHONY: torture
torture: postgres ## Kill servers and stores under load (KILLS=100)
	CARILLON_TORTURE_KILLS=$(KILLS) $(GO) test $(WHOLE) -p 1 -count=1 -timeout 60m -run Torture -v $(TORTURES)

.PHONY: torture-delivery
torture-delivery: postgres ## Kill servers that deliver, count what is lost (KILLS=50)
	CARILLON_TORTURE_KILLS=$(KILLS) $(GO) test $(WHOLE) -count=1 -timeout 60m -run 'Torture$$/events' -v ./cmd/internal/app

.PHONY: torture-collect
torture-collect: postgres ## Kill servers that collect, compare the results (KILLS=50)
	CARILLON_TORTURE_KILLS=$(KILLS) $(GO) test $(WHOLE) -count=1 -timeout 60m -run TortureCollect -v ./cmd/internal/app

.PHONY: torture-copy
torture-copy: ## Copy a large store there and back (COPIED=100000)
	CARILLON_TEST_COPIED=$(COPIED) $(GO) test -count=1 -timeout 30m -run AcrossMove -v -parallel 1 ./eventstore/copying

.PHONY: bench-feeds
bench-feeds: postgres ## Measure item lists, and the rebuild of items
	$(GO) test -run '^$$' -bench ItemLists -benchtime 5000x -timeout 30m ./cmd/internal/httpapi
	$(GO) test -run '^$$' -bench Rebuild -benchtime $(BENCHTIME) -timeout 30m ./projections/items

.PHONY: bench-console
bench-console: postgres ## Measure every page of the console
	$(GO) test -run '^$$' -bench Pages -benchtime 40x -timeout 30m ./cmd/internal/console

.PHONY: bench-delivery
bench-delivery: postgres ## Measure delivery from publishing to receipt (DELIVERIES)
	$(SERVED) 'Bare|Served'

.PHONY: bench-apart
bench-apart: postgres ## Measure servers that share the roles (DELIVERIES)
	$(SERVED) 'Apart'

.PHONY: bench-hostile
bench-hostile: postgres ## Measure what others notice of an attack
	$(SERVED) Hostile

.PHONY: test-eventstore
test-eventstore: ## Test a real EventStoreDB (URL=esdb://host:2113?tls=true)
	@test -n '$(URL)' || { echo 'name a server: make test-eventstore URL=esdb://localhost:2113?tls=false' >&2; exit 2; }
	CARILLON_TEST_EVENTSTORE_URL='$(URL)' $(GO) test -count=1 -timeout 10m ./eventstore/esdb/... ./eventstore/storetest/...

.PHONY: test-strict
test-strict: postgres ## Test beside a node that drops connections (STRICT=23.10)
	CARILLON_TEST_STRICT='$(STRICT)' $(GO) test -timeout 10m ./eventstore/... ./projections/... ./cmd/...

# Parts of the above.

.PHONY: postgres
postgres:
	@sh deploy/install-postgres.sh

.PHONY: chromium
chromium: ## Install Chromium for the tests in a browser
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
	cd .ci/tools/chart && $(GO) mod tidy -diff
	cd .ci/tools/image && $(GO) mod tidy -diff

# Compares with the state before, not with the last commit, so that it can be run at any time.
.PHONY: fresh
fresh:
	@state() { git status --porcelain && git diff; } && before=$$(state) && $(MAKE) generate && \
		if [ "$$before" != "$$(state)" ]; then git status --short; echo "Generated files were stale and have been made anew: commit them."; exit 1; fi
