package arch

import (
	"strings"
)

// Rule lists the imports that some packages must not have. Patterns are import paths; one that ends in "/..." means the
// package and all below it, and "..." alone means every package of the module.
type Rule struct {
	Of     []string // the packages that the rule is about
	Except []string // but not these
	Only   []string // besides the standard library they import these alone; nil means anything that Never does not name
	Never  []string // they import none of these, of the standard library either
	Tests  bool     // test files keep to it as well
	Why    string
}

const (
	client    = "github.com/EventStore/EventStore-Client-Go/..."
	pebble    = "github.com/cockroachdb/pebble/..."
	pgx       = "github.com/jackc/pgx/..."
	uuid      = "github.com/google/uuid"
	watermill = "github.com/ThreeDotsLabs/watermill/..."
	json      = "github.com/go-json-experiment/json/..."
	otel      = "go.opentelemetry.io/..."
)

// support lists the packages that exist for tests.
var support = []string{
	"carillon/eventstore/aggregatetest", "carillon/eventstore/nodetest", "carillon/eventstore/processtest",
	"carillon/eventstore/storetest/...",
	"carillon/projections/pgtest/...", "carillon/projections/projecttest", "carillon/command/mtls/mtlstest",
	"carillon/command/collect/crawl/fetch/hoststest",
	"carillon/command/collect/crawl/walktest", "carillon/command/collect/crawl/frontier/frontiertest",
	"carillon/command/visiting/visitingtest", "carillon/command/curate/curatetest",
	"carillon/command/delivery/deliverytest", "carillon/cmd/internal/httpapi/apitest",
	"carillon/cmd/internal/openapi/contract", "carillon/cmd/internal/suite", "carillon/cmd/internal/suite/children",
}

// Rules are the directions in which the parts may know each other.
var Rules = []Rule{
	{
		Of:   []string{"carillon/aggregates/..."},
		Only: []string{"carillon/eventstore", "carillon/eventstore/instant", "carillon/aggregates/...", uuid},
		Why:  "an aggregate is a pure decision: whatever it could reach beyond its own events would be an effect",
	},
	{
		Of:     []string{"carillon/aggregates/..."},
		Except: []string{"carillon/aggregates/item/shape"},
		Never:  []string{"carillon/aggregates/..."},
		Why: "the state of one decision is in one aggregate; two that knew each other would be one. " +
			"item/shape only renders: it shows an item's happening as the API and the webhooks do",
	},
	{
		Of: []string{"carillon/aggregates/..."},
		Never: []string{
			"context", "io/...", "log", "log/syslog", "math/rand/...", "net/...", "os/...", "runtime/...", "sync/...", "syscall",
		},
		Why: "decisions know no clock, no chance, no I/O: the same history and command come to the same events",
	},
	{
		Of:   []string{"carillon/eventstore"},
		Only: []string{uuid, json},
		Why:  "the kernel is below everything; all others lean on it, so it leans on nothing",
	},
	{
		Of:     []string{"carillon/eventstore/..."},
		Except: []string{"carillon/eventstore/node/..."},
		Never: []string{
			"carillon/aggregates/...", "carillon/command/...", "carillon/projections/...", "carillon/query/...",
			"carillon/cmd/...", pgx, watermill,
		},
		Why: "the event store keeps facts without knowing what they mean or who reads them",
	},
	{
		Of:     []string{"carillon/eventstore/node/..."},
		Except: []string{"carillon/eventstore/node/embedded"}, // which implements Carillon's interface
		Only: []string{
			"carillon/eventstore/node/...", client, pebble, uuid,
			"google.golang.org/...", "github.com/prometheus/client_golang/...",
		},
		Never: []string{"github.com/EventStore/EventStore-Client-Go/v4/esdb"},
		Why: "the node is a server for any EventStoreDB client: it speaks the protocol's messages and knows neither " +
			"Carillon nor the client's code, so that it can be replaced by a real server",
	},
	{
		Of:     []string{"..."},
		Except: []string{"carillon/eventstore/esdb", "carillon/eventstore/node/...", "carillon/eventstore/storetest/..."},
		Never:  []string{client},
		Tests:  true,
		Why:    "the protocol is spoken in one place at either end, and another one means one other package",
	},
	{
		Of:     []string{"..."},
		Except: append([]string{"carillon/eventstore/node/..."}, support...), // some lend the node a file system
		Never:  []string{pebble},
		Why:    "how the node stores is its own affair",
	},
	{
		Of: []string{"carillon/command/..."},
		Never: []string{
			"carillon/projections/...", "carillon/query/...", "carillon/cmd/...", "carillon/eventstore/esdb",
			"carillon/eventstore/node/...", pgx, watermill, "database/sql",
		},
		Why: "use cases and process managers know no SQL: for rows they declare an interface that cmd implements",
	},
	{
		Of: []string{"carillon/command/collect/..."},
		Never: []string{
			"carillon/eventstore", "carillon/command", "carillon/command/delivery/...", "carillon/command/visiting",
			"carillon/command/curate", "carillon/command/webhook",
		},
		Why: "a collector reads foreign pages and yields observations; others decide what to do with them",
	},
	{
		Of:    []string{"carillon/command/collect/crawl/..."},
		Never: []string{"carillon/command/collect/sources/...", "carillon/command/collect/extract/..."},
		Why:   "crawling chooses and fetches pages, whatever stands on them",
	},
	{
		Of:    []string{"carillon/command/collect/extract/..."},
		Never: []string{"carillon/command/collect/sources/...", "carillon/command/collect/crawl/..."},
		Why:   "extracting reads a page that is there, and fetches none",
	},
	{
		Of:    []string{"carillon/command/visiting"},
		Never: []string{"carillon/command/curate", "carillon/command/delivery/...", "carillon/command/collect/sources/..."},
		Why:   "a visit records what a source shows; which feeds show it follows from its events",
	},
	{
		Of:    []string{"carillon/command/delivery/schedule"},
		Only:  []string{uuid},
		Never: []string{"context", "io/...", "log/...", "math/rand/...", "net/...", "os/...", "sync/..."},
		Why:   "the schedule decides what is sent next by what it is given, without I/O",
	},
	{
		Of: []string{"carillon/command/delivery/routing", "carillon/command/delivery/facts"},
		Never: []string{
			"carillon/command/delivery/dispatching", "carillon/command/delivery/sending",
			"carillon/command/delivery/notices", "carillon/command/delivery/autodisable", "carillon/command/delivery/cascade",
		},
		Why: "who gets an event, and what may be sent, are asked by what dispatches and sends",
	},
	{
		Of: []string{"carillon/command/delivery/sending"},
		Never: []string{
			"carillon/command/delivery/dispatching", "carillon/command/delivery/notices",
			"carillon/command/delivery/autodisable", "carillon/command/delivery/cascade",
		},
		Why: "a deliverer sends what it is handed or claims, in a process without a dispatcher as well",
	},
	{
		Of:    []string{"carillon/command/curate"},
		Never: []string{"carillon/command/visiting", "carillon/command/delivery/...", "carillon/command/collect/crawl/..."},
		Why:   "feeds follow from recorded events, without looking at pages",
	},
	{
		Of:     []string{"carillon/projections/..."},
		Except: []string{"carillon/projections/audit"}, // which stores what query.AuditDetail declares
		Never:  []string{"carillon/query/..."},
		Why:    "a read model is written from events, not from what others have written",
	},
	{
		Of:    []string{"carillon/projections/..."},
		Never: []string{"carillon/command/...", "carillon/cmd/...", "net/http"},
		Why:   "a read model follows from events alone: it can be rebuilt at any time without side effects",
	},
	{
		Of:     []string{"carillon/projections/..."},
		Except: support,
		Never:  []string{"carillon/eventstore/esdb", "carillon/eventstore/node/..."},
		Why:    "projections read through the interface of the event store, whatever stands behind it",
	},
	{
		Of: []string{"carillon/query"},
		Only: []string{
			pgx, uuid, json, "carillon/eventstore", "carillon/eventstore/instant", "carillon/aggregates/destination",
			"carillon/aggregates/retirement",
			"carillon/aggregates/subscription", "carillon/projections/deliveries/deliverystate",
		},
		Why: "queries read rows; whatever decides or changes is elsewhere. deliverystate names the states of deliveries, " +
			"for queries, for views of analysts, and for what shows them",
	},
	{
		Of:     []string{"..."},
		Except: []string{"carillon/projections"},
		Never:  []string{watermill},
		Why:    "how events are handed to projections and process managers is the runner's affair",
	},
	{
		Of:     []string{"..."},
		Except: []string{"carillon/cmd/..."},
		Never:  []string{"carillon/cmd/...", "github.com/alecthomas/kong", "github.com/go-chi/chi/..."},
		Why:    "cmd connects: nothing that it connects knows of it, of flags or of routes",
	},
	{
		Of:     []string{"..."},
		Except: []string{"carillon/cmd/internal/tracing"},
		Never:  []string{otel},
		Why:    "spans are made at the rim: use cases and deliveries know an interface, stored events a traceparent",
	},
	{
		Of:     []string{"..."},
		Except: support,
		Never: append([]string{
			"testing/...", "net/http/httptest", "github.com/google/go-cmp/...", "github.com/testcontainers/...",
			"go.uber.org/goleak", "pgregory.net/rapid", "github.com/cloudevents/...", "github.com/getkin/kin-openapi/...",
		}, support...),
		Why: "production code contains nothing that exists for tests",
	},
}

// impure are the functions that decisions must not call, by import path.
var impure = map[string][]string{
	"time":        {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	"crypto/rand": {"Int", "Prime", "Read", "Text"},
	uuid:          {"Must", "New", "NewRandom", "NewString", "NewUUID", "NewV6", "NewV7"},
}

// Limits of files.
const maxLines = 500

// junkNames are package names that say nothing and therefore collect everything.
var junkNames = []string{"base", "common", "core", "helper", "helpers", "impl", "lib", "misc", "model", "models",
	"shared", "tools", "types", "util", "utils"}

// topLevel lists the permitted entries of the top, besides those in .gitignore.
var topLevel = []string{
	".ci", ".git", ".gitattributes", ".github", ".gitignore", ".golangci.yml", "LICENSE", "Makefile", "README.md",
	"aggregates", "cmd", "command", "deploy", "docs", "eventstore", "go.mod", "go.sum", "projections", "query",
}

// Violates returns why a file of a package may not import a path, or "".
func (r *Rule) Violates(pkg, imported string, test bool) string {
	switch {
	case test && !r.Tests, !matches(pkg, r.Of), matches(pkg, r.Except):
		return ""
	case imported == pkg: // an external test package
		return ""
	case matches(imported, r.Never):
		return r.Why
	case r.Only != nil && !standard(imported) && !matches(imported, r.Only):
		return r.Why
	}
	return ""
}

// matches reports whether an import path is meant by one of the patterns.
func matches(importPath string, patterns []string) bool {
	for _, pattern := range patterns {
		prefix, below := strings.CutSuffix(pattern, "/...")
		switch {
		case pattern == "...", importPath == prefix, below && strings.HasPrefix(importPath, prefix+"/"):
			return true
		}
	}
	return false
}

// standard reports whether a path is one of the standard library: its first element has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return first != "carillon" && !strings.Contains(first, ".")
}
