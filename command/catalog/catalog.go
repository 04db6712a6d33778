// Package catalog knows every event type that can be published or subscribed to, and the JSON Schema of its data.
package catalog

import (
	"bytes"
	"embed"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"carillon/aggregates/subscription"
)

//go:embed schemas/*.json
var schemas embed.FS

// Type is one entry of the catalog.
type Type struct {
	Name        string `json:"type"`
	Description string `json:"description"`
	// CurrentlyEmitted is false for a reserved type, which is valid in subscriptions and never delivered.
	CurrentlyEmitted bool           `json:"currentlyEmitted"`
	FeedType         string         `json:"feedType,omitempty"` // kind of the feeds that carry it; empty: it has no feed
	Schema           jsontext.Value `json:"schema"`             // JSON Schema, draft 2020-12
}

// DeliveryTest is the type that only the test endpoint sends. It is not in the catalog.
const DeliveryTest = "delivery.test"

// DestinationsPath begins the source of events about a destination: test events and notices.
const DestinationsPath = "/events/destinations/"

// entries in the order in which the API lists them.
var entries = []Type{
	{
		Name:             "news.item.added",
		FeedType:         "news",
		CurrentlyEmitted: true,
		Description:      "A news item was added to a news feed.",
	},
	{
		Name:             "news.item.updated",
		FeedType:         "news",
		CurrentlyEmitted: true,
		Description:      "A news item of a news feed changed.",
	},
	{Name: "factcheck.status.changed", CurrentlyEmitted: true, Description: "A fact-check reached another status."},
	{Name: "research.status.changed", CurrentlyEmitted: true, Description: "A deep research run reached another status."},
	{
		Name:             "event.item.added",
		FeedType:         "event",
		CurrentlyEmitted: true,
		Description: "An event was added to an event feed. Backfills of a newly attached source add events without " +
			"publishing this.",
	},
	{
		Name:             "event.occurrence.changed",
		FeedType:         "event",
		CurrentlyEmitted: true,
		Description:      "An occurrence of an event in a feed was cancelled, postponed or rescheduled.",
	},
	{
		Name:             "event.item.updated",
		FeedType:         "event",
		CurrentlyEmitted: false,
		Description:      "Reserved: accepted in subscriptions and never delivered.",
	},
}

// Catalog checks types and data against the entries. It is safe for concurrent use.
type Catalog struct {
	types    []Type
	compiled map[string]*jsonschema.Schema
}

// New compiles the embedded schemas; an error is a mistake in them.
func New() (*Catalog, error) {
	types, err := Types()
	if err != nil {
		return nil, err
	}
	c := &Catalog{types: types, compiled: make(map[string]*jsonschema.Schema, len(types))}
	for _, t := range types {
		if c.compiled[t.Name], err = compile(t.Name, t.Schema); err != nil {
			return nil, fmt.Errorf("catalog: schema of %s: %w", t.Name, err)
		}
	}
	return c, nil
}

// Types returns the entries with their schemas, which it does not compile.
func Types() ([]Type, error) {
	types := slices.Clone(entries)
	for i := range types {
		var err error
		if types[i].Schema, err = schemas.ReadFile("schemas/" + types[i].Name + ".json"); err != nil {
			return nil, fmt.Errorf("catalog: %w", err)
		}
	}
	return types, nil
}

// noLoader refuses every reference to another document: schemas are whole, and the default would read files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("no reference is followed: %s", url)
}

func compile(name string, raw []byte) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.AssertFormat()
	url := "urn:carillon:" + name // a relative one is resolved by the working directory, which may be unreadable
	if err := compiler.AddResource(url, document); err != nil {
		return nil, err
	}
	return compiler.Compile(url)
}

// Types lists the entries.
func (c *Catalog) Types() []Type { return c.types }

// Find returns the entry of an exact type.
func (c *Catalog) Find(name string) (Type, bool) {
	for _, t := range c.types {
		if t.Name == name {
			return t, true
		}
	}
	return Type{}, false
}

// Matching returns the names of the types that patterns of a subscription mean, and each pattern that means none, which
// may be the name of a type that an earlier version knew.
func (c *Catalog) Matching(patterns []string) (names []string) {
	for _, pattern := range patterns {
		known := len(names)
		for _, t := range c.types {
			if subscription.MatchesType(pattern, t.Name) {
				names = append(names, t.Name)
			}
		}
		if len(names) == known {
			names = append(names, pattern)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Problem is one place where data does not match its schema.
type Problem struct {
	Path    string // JSON pointer into the data
	Message string
}

// Check validates the data of an event of a known type. It returns what is wrong, at most a few problems, sorted.
func (c *Catalog) Check(name string, data []byte) ([]Problem, error) {
	schema, ok := c.compiled[name]
	if !ok {
		return nil, fmt.Errorf("type %q is not in the catalog", name)
	}
	value, err := parse(data)
	if err != nil {
		return []Problem{{Message: "is not valid JSON"}}, nil //nolint:nilerr // that is the finding
	}
	err = schema.Validate(value)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		return problems(invalid), nil
	}
	return nil, err
}

const maxProblems = 5

func problems(root *jsonschema.ValidationError) []Problem {
	var found []Problem
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			path := ""
			if len(e.InstanceLocation) > 0 {
				path = "/" + strings.Join(e.InstanceLocation, "/")
			}
			found = append(found, Problem{Path: path, Message: leafMessage(e)})
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(root)
	sort.Slice(found, func(i, j int) bool { return found[i].Path < found[j].Path })
	return found[:min(len(found), maxProblems)]
}

// leafMessage is the library's text without its "at '/path': " prefix.
func leafMessage(e *jsonschema.ValidationError) string {
	_, message, ok := strings.Cut(e.Error(), "\n- at ")
	if !ok {
		return e.Error()
	}
	if _, rest, ok := strings.Cut(message, ": "); ok {
		return rest
	}
	return message
}

// document is a JSON value as schemas look at it: numbers as they were written.
type document struct{ value any }

// parse reads a document as jsonschema.UnmarshalJSON does, which takes three times the memory for it.
func parse(data []byte) (any, error) {
	var d document
	err := json.Unmarshal(data, &d, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return d.value, err
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (d *document) UnmarshalJSONFrom(from *jsontext.Decoder) (err error) {
	d.value, err = next(from)
	return err
}

// next reads one value. The decoder bounds how deep it is nested.
func next(from *jsontext.Decoder) (any, error) {
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		return stdjson.Number(token.String()), nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	case jsontext.KindBeginArray:
		list := []any{}
		for from.PeekKind() != jsontext.KindEndArray {
			element, err := next(from)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = from.ReadToken()
		return list, err
	case jsontext.KindBeginObject:
		object := map[string]any{}
		for from.PeekKind() != jsontext.KindEndObject {
			name, err := from.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // valid until the next is read
			if object[key], err = next(from); err != nil {
				return nil, err
			}
		}
		_, err = from.ReadToken()
		return object, err
		// those but null were errors
	case jsontext.KindNull, jsontext.KindInvalid, jsontext.KindEndArray, jsontext.KindEndObject:
	}
	return nil, nil //nolint:nilnil // null
}
