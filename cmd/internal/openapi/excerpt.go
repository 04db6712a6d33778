package openapi

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// Excerpt is a part of a document that another one has too, below a prefix of the paths.
type Excerpt struct {
	Prefix string
	// Parameter is the other document's component for the parameter of the prefix, and NotFound for its absence.
	Parameter, NotFound string

	taken [][2]string // path and method
}

type object = map[string]any

// Take adds an operation.
func (e *Excerpt) Take(method, path string) {
	e.taken = append(e.taken, [2]string{path, strings.ToLower(method)})
}

// Of returns the operations of a document with all components that they use.
func (e *Excerpt) Of(document []byte) (map[string]any, error) {
	var whole object
	if err := json.Unmarshal(document, &whole); err != nil {
		return nil, err
	}
	all, _ := whole["paths"].(object)
	paths := object{}
	for _, one := range e.taken {
		item, _ := all[one[0]].(object)
		operation, known := item[one[1]].(object)
		if !known {
			return nil, fmt.Errorf("no operation %s %s", one[1], one[0])
		}
		at, known := paths[e.Prefix+one[0]].(object)
		if !known {
			own, _ := item["parameters"].([]any)
			named := object{"$ref": "#/components/parameters/" + e.Parameter}
			at = object{"parameters": append([]any{named}, own...)}
			paths[e.Prefix+one[0]] = at
		}
		at[one[1]] = operation
		responses, _ := operation["responses"].(object)
		if _, described := responses["404"]; !described {
			responses["404"] = object{"$ref": "#/components/responses/" + e.NotFound}
		}
	}
	components, _ := whole["components"].(object)
	used := object{}
	collect(paths, components, used)
	return object{"paths": paths, "components": used}, nil
}

// collect copies the components that a value refers to, directly and through others.
func collect(value any, components, used object) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			collect(element, components, used)
		}
	case object:
		if to, ok := v["$ref"].(string); ok {
			take(to, components, used)
		}
		for _, member := range v {
			collect(member, components, used)
		}
	}
}

func take(to string, components, used object) {
	kind, name, _ := strings.Cut(strings.TrimPrefix(to, "#/components/"), "/")
	of, _ := components[kind].(object)
	component, known := of[name]
	if !known {
		return // the other document's own
	}
	kept, _ := used[kind].(object)
	if kept == nil {
		kept = object{}
		used[kind] = kept
	}
	if _, done := kept[name]; !done {
		kept[name] = component
		collect(component, components, used)
	}
}
