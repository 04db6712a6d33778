// Package openapi assembles an OpenAPI document from files.
package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// base is the file that a document begins with.
const base = "openapi/base.yaml"

// Assemble makes a document, OpenAPI 3.1 in JSON, from the hand-written files in the folder openapi, and from generated
// parts. The files are base.yaml and one for each resource, whose paths and components are added to it in the order of
// their names. Members whose names begin with "x-" at the top of a file hold what is used several times in it, by
// YAML's anchors and merge keys. A schema with "required: all" requires each of its properties.
func Assemble(files fs.FS, generated ...map[string]any) ([]byte, error) {
	document, err := readYAML(files, base)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "openapi/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == base {
			continue
		}
		part, err := readYAML(files, name)
		if err != nil {
			return nil, err
		}
		if err := mergeMapping(document, part); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, values := range generated {
		raw, err := yaml.Marshal(values)
		if err != nil {
			return nil, err
		}
		part, err := parseMapping(raw)
		if err != nil {
			return nil, err
		}
		if err := mergeMapping(document, part); err != nil {
			return nil, fmt.Errorf("generated: %w", err)
		}
	}
	var out bytes.Buffer
	if err := writeNode(jsontext.NewEncoder(&out), document); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return out.Bytes(), nil
}

func readYAML(files fs.FS, name string) (*yaml.Node, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	root, err := parseMapping(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := 0; i < len(root.Content); i += 2 {
		if key := root.Content[i].Value; len(key) > 1 && key[:2] == "x-" {
			root.Content = append(root.Content[:i], root.Content[i+2:]...)
			i -= 2
		}
	}
	return root, nil
}

func parseMapping(data []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errNoMapping
	}
	return document.Content[0], nil
}

var errNoMapping = errors.New("not a mapping")

var errTwice = errors.New("given twice")

// mergeMapping adds the members of one mapping to another; where both have one, both must be mappings.
func mergeMapping(into, from *yaml.Node) error {
	for i := 0; i < len(from.Content); i += 2 {
		key, value := from.Content[i], from.Content[i+1]
		at := member(into, key.Value)
		switch {
		case at == nil:
			into.Content = append(into.Content, key, value)
		case at.Kind != yaml.MappingNode || value.Kind != yaml.MappingNode:
			return fmt.Errorf("%s: %w", key.Value, errTwice)
		default:
			if err := mergeMapping(at, value); err != nil {
				return fmt.Errorf("%s: %w", key.Value, err)
			}
		}
	}
	return nil
}

func member(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// writeNode writes YAML as JSON, members in the order in which they stand.
func writeNode(e *jsontext.Encoder, n *yaml.Node) error {
	switch n.Kind {
	case yaml.AliasNode:
		return writeNode(e, n.Alias)
	case yaml.SequenceNode:
		if err := e.WriteToken(jsontext.BeginArray); err != nil {
			return err
		}
		for _, element := range n.Content {
			if err := writeNode(e, element); err != nil {
				return err
			}
		}
		return e.WriteToken(jsontext.EndArray)
	case yaml.MappingNode:
		if err := e.WriteToken(jsontext.BeginObject); err != nil {
			return err
		}
		if err := writeMembers(e, n); err != nil {
			return err
		}
		return e.WriteToken(jsontext.EndObject)
	}
	return writeScalar(e, n)
}

func writeMembers(e *jsontext.Encoder, mapping *yaml.Node) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if key.Tag == "!!merge" {
			for _, merged := range mergedMappings(value) {
				if err := writeMembers(e, merged); err != nil {
					return err
				}
			}
			continue
		}
		if err := e.WriteToken(jsontext.String(key.Value)); err != nil {
			return err
		}
		if key.Value == "required" && value.Value == "all" {
			value = namesOf(member(mapping, "properties"))
		}
		if err := writeNode(e, value); err != nil {
			return err
		}
	}
	return nil
}

// namesOf lists the names of a mapping's members, those of merged ones too.
func namesOf(mapping *yaml.Node) *yaml.Node {
	names := &yaml.Node{Kind: yaml.SequenceNode}
	for _, m := range mergedMappings(mapping) {
		for i := 0; i < len(m.Content); i += 2 {
			if key := m.Content[i]; key.Tag != "!!merge" {
				names.Content = append(names.Content, key)
				continue
			}
			for _, merged := range mergedMappings(m.Content[i+1]) {
				names.Content = append(names.Content, namesOf(merged).Content...)
			}
		}
	}
	return names
}

func mergedMappings(value *yaml.Node) []*yaml.Node {
	switch value.Kind {
	case yaml.AliasNode:
		return []*yaml.Node{value.Alias}
	case yaml.SequenceNode:
		var all []*yaml.Node
		for _, element := range value.Content {
			all = append(all, mergedMappings(element)...)
		}
		return all
	}
	return []*yaml.Node{value}
}

func writeScalar(e *jsontext.Encoder, n *yaml.Node) error {
	var value any
	if err := n.Decode(&value); err != nil {
		return err
	}
	switch v := value.(type) {
	case nil:
		return e.WriteToken(jsontext.Null)
	case bool:
		return e.WriteToken(jsontext.Bool(v))
	case int:
		return e.WriteToken(jsontext.Int(int64(v)))
	case float64:
		return e.WriteToken(jsontext.Float(v))
	}
	return e.WriteToken(jsontext.String(n.Value)) // strings, and what YAML takes for times
}
