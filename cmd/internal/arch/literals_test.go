package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Stored values are made by literals that name their fields: two swapped strings would compile, and be stored for ever.
// go vet holds other packages to that; this holds the aggregates to it themselves.
func TestAggregateLiteralsNameFields(t *testing.T) {
	t.Parallel()
	structs := map[string]map[string]bool{} // by package
	aggregates := map[string][]file{}
	for _, f := range sources(t) {
		if matches(f.pkg, []string{"carillon/aggregates/..."}) {
			aggregates[f.pkg] = append(aggregates[f.pkg], f)
			structs[f.pkg] = f.structs(structs[f.pkg])
		}
	}
	for pkg, files := range aggregates {
		for _, f := range files {
			f.unkeyed(structs[pkg], func(n ast.Node, name string) {
				t.Errorf("%s:%d makes a %s without the names of its fields", f.path, f.fset.Position(n.Pos()).Line, name)
			})
		}
	}
}

func TestUnkeyedLiteralsAreFound(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]int{
		`type S struct{ A, B string }; var s = S{"a", "b"}`:                             1,
		`type S struct{ A, B string }; var s = S{A: "a", B: "b"}`:                       0,
		`type S struct{ A, B string }; var s = []S{{"a", "b"}, {A: "a"}, {}}`:           1,
		`type S struct{ A, B string }; var s = map[string]*S{"x": {"a", "b"}}`:          1,
		`type S struct{ A, B string }; var s = map[string][]S{"x": {{"a", "b"}}}`:       1,
		`type L []string; var l = L{"a", "b"}; var m = [2]string{"a", "b"}`:             0,
		`type ( S struct{ A, B string }; T struct{ S }; ); var t = T{S: S{"a", "b"}}`:   1,
		`type S struct{ A, B string }; var s = []struct{ S S }{{S: S{A: "a", B: "b"}}}`: 0,
	} {
		tree := must.Get(parser.ParseFile(token.NewFileSet(), "p.go", "package p\n"+source, parser.SkipObjectResolution))(t)
		f, found := file{tree: tree}, 0
		f.unkeyed(f.structs(nil), func(ast.Node, string) { found++ })
		assert.Equal(t, found, want, "%s: found", source)
	}
}

// structs adds the struct types that a file declares.
func (f *file) structs(to map[string]bool) map[string]bool {
	if to == nil {
		to = map[string]bool{}
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if _, is := spec.Type.(*ast.StructType); is {
				to[spec.Name.Name] = true
			}
		}
		return true
	})
	return to
}

// unkeyed yields the literals of the structs that do not name their fields.
func (f *file) unkeyed(structs map[string]bool, yield func(n ast.Node, name string)) {
	elided := map[*ast.CompositeLit]ast.Expr{} // the types of literals that leave it out
	ast.Inspect(f.tree, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		kind := literal.Type
		if kind == nil {
			kind = elided[literal]
		}
		if pointer, ok := kind.(*ast.StarExpr); ok {
			kind = pointer.X
		}
		switch kind := kind.(type) {
		case *ast.Ident:
			if len(literal.Elts) == 0 || !structs[kind.Name] {
				break
			}
			if _, keyed := literal.Elts[0].(*ast.KeyValueExpr); !keyed {
				yield(literal, kind.Name)
			}
		case *ast.ArrayType:
			elide(elided, literal, kind.Elt)
		case *ast.MapType:
			elide(elided, literal, kind.Value)
		}
		return true
	})
}

// elide notes the type of the elements that leave it out.
func elide(elided map[*ast.CompositeLit]ast.Expr, literal *ast.CompositeLit, kind ast.Expr) {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			element = pair.Value
		}
		if inner, ok := element.(*ast.CompositeLit); ok && inner.Type == nil {
			elided[inner] = kind
		}
	}
}
