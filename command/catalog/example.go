package catalog

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// node is the part of a JSON Schema that examples are made of.
type node struct {
	Type       any             `json:"type"`
	Format     string          `json:"format"`
	Enum       []any           `json:"enum"`
	Properties map[string]node `json:"properties"`
	Items      *node           `json:"items"`
}

// Example returns data that matches the type's schema: each member has a value, ids are new, and times are now.
func (t Type) Example(newID func() string, now time.Time) (map[string]any, error) {
	var schema node
	if err := json.Unmarshal(t.Schema, &schema); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t.Name, err)
	}
	made := example{newID: newID, now: now.UTC().Format(time.RFC3339)}
	data, _ := made.of("", schema).(map[string]any)
	return data, nil
}

// example makes values.
type example struct {
	newID func() string
	now   string
}

func (e *example) of(name string, schema node) any {
	switch {
	case len(schema.Enum) > 0:
		return schema.Enum[0]
	case schema.is("object"):
		members := make(map[string]any, len(schema.Properties))
		for member, value := range schema.Properties {
			members[member] = e.of(member, value)
		}
		return members
	case schema.is("array") && schema.Items != nil:
		return []any{e.of(name, *schema.Items)}
	case schema.is("array"):
		return []any{}
	case schema.is("number"), schema.is("integer"):
		return 1
	case schema.is("boolean"):
		return true
	}
	return e.text(name, schema.Format)
}

func (e *example) text(name, format string) string {
	switch {
	case format == "uuid" || name == "id":
		return e.newID()
	case format == "date-time":
		return e.now
	case format == "uri":
		return "https://example.com/" + name
	}
	return "Example " + name
}

// is reports whether a schema admits a type; its own may be a list.
func (n *node) is(kind string) bool {
	if list, ok := n.Type.([]any); ok {
		return slices.Contains(list, any(kind))
	}
	return n.Type == kind
}
