package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/aggregates/announcement"
	"carillon/aggregates/auditor"
	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/externalid"
	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/aggregates/source"
	"carillon/aggregates/subscription"
	"carillon/aggregates/treehead"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const root = "../.."

// The pages about the views for analysts are those of their comments.
func TestStoredViewPagesAreFresh(t *testing.T) {
	t.Parallel()
	for name, page := range ViewPages() {
		stored, err := os.ReadFile(filepath.Join(root, "docs", name))
		assert.True(t, err == nil && bytes.Equal(stored, page), "docs/%s is stale: make generate (%v)", name, err)
	}
}

func TestStoredPageIsFresh(t *testing.T) {
	t.Parallel()
	page := must.Get(Page(root))(t)
	stored := must.Get(os.ReadFile(filepath.Join(root, "docs", "understand", "events.md")))(t)
	assert.True(t, bytes.Equal(page, stored), "docs/understand/events.md is stale: run make generate")
}

// The events read from the source must be those of the codecs.
func TestEveryEventOfTheCodecsIsThere(t *testing.T) {
	t.Parallel()
	page := must.Get(Page(root))(t)
	var names []string
	for _, list := range [][]string{
		announcement.Events.Names(), auditor.Events.Names(), clientcertificate.Events.Names(), delivery.Events.Names(),
		destination.Events.Names(),
		disclosure.Events.Names(),
		dispatch.Events.Names(), externalid.Events.Names(),
		feed.Events.Names(), happening.Events.Names(), item.Events.Names(), operator.Events.Names(),
		organization.Events.Names(),
		publication.Events.Names(), retirement.Events.Names(), source.Events.Names(), subscription.Events.Names(),
		treehead.Events.Names(),
	} {
		names = append(names, list...)
	}
	for _, name := range names {
		assert.True(t, strings.Contains(string(page), "\n### "+name+"\n"), "%s is missing", name)
	}
	assert.Equal(t, strings.Count(string(page), "\n### "), len(names), "events on the page, the codecs know")
}

func TestFieldsOfEmbeddedAndInnerStructsAreListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "thing.go"), `// Package thing is one.
//
//	(none) ──Make──▶ made
package thing

// Made records that it was made.
type Made struct {
	Core
	Parts []Part  `+"`json:\"parts,omitempty\"`"+` // of which it consists
	inner int
}

type Core struct{ At time.Time `+"`json:\"at\"`"+` }

type Part struct {
	Name  string `+"`json:\"name\"`"+`
	Inner *Part  `+"`json:\"inner,omitzero\"`"+`
}

var Events = eventstore.NewCodec(eventstore.Case[Event, Made]("thing.made.v1"))

var Aggregate = eventstore.Aggregate[State, Event, Command]{Category: "thing"}
`)
	write(t, filepath.Join(dir, "testdata", "thing.made.v1.json"), `{"at":"2026-11-21T12:00:00Z"}`)
	a := must.Get(readAggregate(dir))(t)
	page := string(render([]*aggregate{a}, nil))
	for _, want := range []string{
		"\nMade records that it was made.\n", "| `at` | time |",
		"| `parts` | list of object, optional | of which it consists |",
		"| `parts[].name` | string |", "| `parts[].inner` | object, optional |",
		"```text\n(none) ──Make──▶ made\n```", "\"at\": \"2026-11-21T12:00:00Z\"",
	} {
		assert.True(t, strings.Contains(page, want), "the page lacks %q", want)
	}
}

func TestAnEventWithoutAGoldenFileIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "thing.go"), `package thing

type Made struct{}

var Events = eventstore.NewCodec(eventstore.Case[Event, Made]("thing.made.v1"))
`)
	_, err := readAggregate(dir)
	assert.True(t, err != nil && strings.Contains(err.Error(), "thing.made.v1"), "error = %v", err)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o750))
	must.OK(t, os.WriteFile(path, []byte(content), 0o600))
}
