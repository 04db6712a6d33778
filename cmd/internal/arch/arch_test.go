package arch

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestImportsKeepTheirDirection(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, imported := range f.imports() {
			for i := range Rules {
				assert.Equal(t, Rules[i].Violates(f.pkg, imported, f.test), "", "%s imports %s, but", f.path, imported)
			}
		}
	}
}

// A rule that nothing can break holds nothing.
func TestEachRuleCanBeBroken(t *testing.T) {
	t.Parallel()
	type breach struct {
		pkg, imported string
		test          bool
	}
	breaches := []breach{
		{pkg: "carillon/aggregates/feed", imported: "github.com/jackc/pgx/v5"},
		{pkg: "carillon/aggregates/feed", imported: "carillon/aggregates/item"},
		{pkg: "carillon/aggregates/feed", imported: "net/http"},
		{pkg: "carillon/eventstore", imported: "carillon/eventstore/esdb"},
		{pkg: "carillon/eventstore/esdb", imported: "carillon/aggregates/feed"},
		{pkg: "carillon/eventstore/node/internal/store", imported: "carillon/eventstore"},
		{pkg: "carillon/projections", imported: "github.com/EventStore/EventStore-Client-Go/v4/esdb", test: true},
		{pkg: "carillon/projections", imported: "github.com/cockroachdb/pebble/v2"},
		{pkg: "carillon/command/delivery/sending", imported: "carillon/projections/deliveries"},
		{pkg: "carillon/command/delivery/schedule", imported: "log/slog"},
		{pkg: "carillon/command/delivery/facts", imported: "carillon/command/delivery/sending"},
		{pkg: "carillon/command/delivery/sending", imported: "carillon/command/delivery/dispatching"},
		{pkg: "carillon/command/collect/sources/site", imported: "carillon/command"},
		{pkg: "carillon/command/collect/crawl/fetch", imported: "carillon/command/collect/extract/timing"},
		{pkg: "carillon/command/collect/extract/calendar", imported: "carillon/command/collect/crawl/fetch"},
		{pkg: "carillon/command/visiting", imported: "carillon/command/curate"},
		{pkg: "carillon/command/curate", imported: "carillon/command/visiting"},
		{pkg: "carillon/projections/items", imported: "carillon/command"},
		{pkg: "carillon/projections/items", imported: "carillon/query"},
		{pkg: "carillon/projections/items", imported: "carillon/eventstore/esdb"},
		{pkg: "carillon/query", imported: "carillon/aggregates/feed"},
		{pkg: "carillon/command/delivery/sending", imported: "github.com/ThreeDotsLabs/watermill/message"},
		{pkg: "carillon/command/delivery/sending", imported: "go.opentelemetry.io/otel/trace"},
		{pkg: "carillon/query", imported: "carillon/cmd/internal/config"},
		{pkg: "carillon/command", imported: "carillon/eventstore/aggregatetest"},
	}
	for i := range Rules {
		if !slices.ContainsFunc(breaches, func(b breach) bool {
			return Rules[i].Violates(b.pkg, b.imported, b.test) != ""
		}) {
			t.Errorf("no example breaks the rule that %s", Rules[i].Why)
		}
	}
	for _, b := range breaches {
		if !slices.ContainsFunc(Rules, func(r Rule) bool { return r.Violates(b.pkg, b.imported, b.test) != "" }) {
			t.Errorf("%s may import %s", b.pkg, b.imported)
		}
	}
	for _, allowed := range [][2]string{
		{"carillon/aggregates/item/shape", "carillon/aggregates/happening"},
		{"carillon/aggregates/feed", "time"},
		{"carillon/command/delivery/dispatching", "carillon/command/delivery/routing"},
		{"carillon/eventstore/esdb", "github.com/EventStore/EventStore-Client-Go/v4/esdb"},
		{"carillon/cmd/internal/app", "carillon/projections/items"},
	} {
		for i := range Rules {
			if why := Rules[i].Violates(allowed[0], allowed[1], false); why != "" {
				t.Errorf("%s may not import %s, because %s", allowed[0], allowed[1], why)
			}
		}
	}
}

func TestDecisionsKnowNoClockAndNoChance(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || !strings.HasPrefix(f.path, "aggregates/") {
			continue
		}
		f.uses(func(importPath, name string, line int) {
			if slices.Contains(impure[importPath], name) {
				t.Errorf("%s:%d uses %s.%s: times and new ids arrive inside commands", f.path, line, path.Base(importPath), name)
			}
		})
	}
}

// In a file on testing/synctest sleeping passes time without taking any. Benchmarks and tortures, which wait for events
// without a signal or strike at any moment, may sleep.
func TestNothingSleeps(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		special := strings.Contains(f.path, "bench") || strings.Contains(path.Base(f.path), "torture")
		if f.test && (special || slices.Contains(f.imports(), "testing/synctest")) {
			continue
		}
		f.uses(func(importPath, name string, line int) {
			if importPath == "time" && name == "Sleep" {
				t.Errorf("%s:%d sleeps: wait on a signal, use testing/synctest, or poll with a deadline", f.path, line)
			}
		})
	}
}

func TestFilesAndPackagesAreReadable(t *testing.T) {
	t.Parallel()
	documented, packages := map[string]bool{}, map[string]string{}
	for _, f := range sources(t) {
		if f.lines > maxLines && !f.generated {
			t.Errorf("%s has %d lines: split it, the limit is %d", f.path, f.lines, maxLines)
		}
		name := strings.TrimSuffix(f.tree.Name.Name, "_test")
		if slices.Contains(junkNames, name) || slices.Contains(junkNames, strings.TrimSuffix(path.Base(f.path), ".go")) {
			t.Errorf("%s: a name that says nothing becomes a drawer for everything", f.path)
		}
		if !f.test {
			packages[f.pkg] = f.path
			documented[f.pkg] = documented[f.pkg] || f.tree.Doc != nil
		}
	}
	for pkg, name := range packages {
		assert.True(t, documented[pkg], "package %s (%s) does not say what it is for", pkg, name)
	}
}

func TestTopIsSmall(t *testing.T) {
	t.Parallel()
	entries := must.Get(os.ReadDir(root))(t)
	ignored := ignorePatterns(t)
	for _, entry := range entries {
		name := entry.Name()
		if slices.Contains(topLevel, name) || slices.ContainsFunc(ignored, func(pattern string) bool {
			matched, err := filepath.Match(pattern, name)
			return err == nil && matched
		}) {
			continue
		}
		t.Errorf("%s at the top: everything has a place in one of the folders", name)
	}
}

func ignorePatterns(t *testing.T) []string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(root, ".gitignore")))(t)
	var patterns []string
	for line := range strings.Lines(string(content)) {
		if pattern := strings.Trim(strings.TrimSpace(line), "/"); pattern != "" {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}
