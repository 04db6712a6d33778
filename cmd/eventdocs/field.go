package main

import (
	"go/ast"
	"go/types"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is one JSON field of an event.
type field struct {
	path     string // "deliveries[].destination"
	kind     string
	optional bool
	doc      string
}

// words are the names of types that readers of JSON know.
var words = map[string]string{
	"uuid.UUID": "uuid", "time.Time": "time", "time.Duration": "nanoseconds", "[]byte": "base64",
	"json.RawMessage": "JSON",
	"jsontext.Value":  "JSON", "eventstore.JSON": "JSON", "JSON": "JSON", "bool": "boolean",
	"int": "integer", "int32": "integer", "int64": "integer", "float64": "number",
}

// fields lists the JSON fields of a type, those of structs inside it after theirs. within are the types around it.
func (s *syntax) fields(t ast.Expr, prefix string, within []string) []field {
	structure, ok := t.(*ast.StructType)
	if !ok {
		if ident, ok := t.(*ast.Ident); ok && !slices.Contains(within, ident.Name) {
			if found, ok := s.types[ident.Name]; ok {
				return s.fields(found.spec.Type, prefix, append(within, ident.Name))
			}
		}
		return nil
	}
	var list []field
	for _, f := range structure.Fields.List {
		name, optional := tagOf(f)
		if name == "" && len(f.Names) == 0 { // embedded: its fields are the event's own
			list = append(list, s.fields(strip(f.Type), prefix, within)...)
			continue
		}
		if name == "" {
			continue
		}
		kind, inner, suffix := s.kind(f.Type)
		list = append(list, field{
			path:     prefix + name,
			kind:     kind,
			optional: optional,
			doc:      comment(f),
		})
		if inner != "" && !slices.Contains(within, inner) {
			list = append(list, s.fields(s.types[inner].spec.Type, prefix+name+suffix+".", append(within, inner))...)
		}
	}
	return list
}

// kind describes a type; inner is the struct of this package that it holds, and suffix how it holds it.
func (s *syntax) kind(t ast.Expr) (kind, inner, suffix string) {
	if word := words[types.ExprString(strip(t))]; word != "" {
		return word, "", ""
	}
	switch t := strip(t).(type) {
	case *ast.ArrayType:
		kind, inner, suffix = s.kind(t.Elt)
		return "list of " + kind, inner, "[]" + suffix
	case *ast.MapType:
		key, _, _ := s.kind(t.Key)
		kind, inner, suffix = s.kind(t.Value)
		return "map of " + key + " to " + kind, inner, ".*" + suffix
	case *ast.Ident:
		found, ok := s.types[t.Name]
		if !ok {
			return t.Name, "", ""
		}
		if _, is := found.spec.Type.(*ast.StructType); is {
			return "object", t.Name, ""
		}
		return s.kind(found.spec.Type)
	default:
		return "`" + types.ExprString(t) + "`", "", ""
	}
}

func strip(t ast.Expr) ast.Expr {
	if star, ok := t.(*ast.StarExpr); ok {
		return star.X
	}
	return t
}

func tagOf(f *ast.Field) (name string, optional bool) {
	if f.Tag == nil {
		return "", false
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return "", false
	}
	name, rest, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	name = strings.Trim(name, "'")
	if name == "-" {
		return "", false
	}
	return name, strings.Contains(rest, "omitempty") || strings.Contains(rest, "omitzero")
}

// comment is a field's explanation, above it or behind it.
func comment(f *ast.Field) string {
	both := f.Doc.Text() + " " + f.Comment.Text()
	return strings.Join(strings.Fields(both), " ")
}
