package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// The check of sum types (make lint) sees to it that a switch over the events of an aggregate names all of them. It
// sees neither an assertion nor a switch over any. So events are distinguished by switches over their own interface.
func TestEventsAreToldApartBySwitches(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if !f.test {
			f.mistold(func(n ast.Node, why string) { t.Errorf("%s:%d %s", f.path, f.fset.Position(n.Pos()).Line, why) })
		}
	}
}

func TestMistoldEventsAreFound(t *testing.T) {
	t.Parallel()
	const imports = "package p\n" + `import ("carillon/aggregates/feed"; "carillon/aggregates/item")` + "\n"
	for source, want := range map[string]int{
		"func f(e feed.Event) { _, " +
			"_ = e.(feed.Created) }": 1,
		"func f(e feed.Event) { _, _ = e.(feed.Created); switch e.(type) { case " +
			"feed.Deleted: } }": 1,
		"func f(e feed.Event) { _, _ = e.(feed.Created); switch e.(type) { case feed.Created, " +
			"feed.Deleted: } }": 0,
		"func f(e any) { switch e.(type) { case feed.Created: case " +
			"item.Added: } }": 1,
		"func f(e any) { switch e := e.(type) { case feed.Event: switch e.(type) { case feed.Created: }; case " +
			"item.Event: } }": 0,
	} {
		f := file{fset: token.NewFileSet()}
		tree := must.Get(parser.ParseFile(f.fset, "p.go", imports+source, parser.SkipObjectResolution))(t)
		f.tree, f.byName = tree, importsByName(tree)
		var found []string
		f.mistold(func(_ ast.Node, why string) { found = append(found, why) })
		assert.True(t, len(found) == want, "%s: found %q, want %d", source, found, want)
	}
}

// The check of sum types looks at declared ones only.
func TestEventsAndCommandsAreSumTypes(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test || !strings.HasPrefix(f.path, "aggregates/") {
			continue
		}
		for _, declaration := range f.tree.Decls {
			types, ok := declaration.(*ast.GenDecl)
			if !ok || len(types.Specs) != 1 {
				continue
			}
			spec, ok := types.Specs[0].(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Event" && spec.Name.Name != "Command" {
				continue
			}
			if types.Doc == nil || !slices.ContainsFunc(types.Doc.List, func(c *ast.Comment) bool {
				return c.Text == "//sumtype:decl"
			}) {
				t.Errorf("%s: %s is not declared a sum type: //sumtype:decl", f.path, spec.Name.Name)
			}
		}
	}
}

// mistold yields the assertions of events that no switch of the same function lists, and the switches that mix events
// of several aggregates.
func (f *file) mistold(yield func(n ast.Node, why string)) {
	for _, declaration := range f.tree.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		asserted, listed := f.events(function.Body)
		for _, e := range asserted {
			if !listed[e] {
				yield(function, "asserts that an event is "+e+": use a switch that names the others")
			}
		}
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSwitchStmt); ok && len(f.aggregates(s)) > 1 {
			yield(s, "distinguishes events of several aggregates: switch over their interfaces, then over each")
		}
		return true
	})
}

// events are the variants of events that a function asserts, or has in the cases of switches.
func (f *file) events(body ast.Node) (asserted []string, listed map[string]bool) {
	listed = map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			if e, ok := f.event(n.Type); ok {
				asserted = append(asserted, e)
			}
		case *ast.TypeSwitchStmt:
			for _, e := range f.cases(n) {
				listed[e] = true
			}
		}
		return true
	})
	return asserted, listed
}

// aggregates are those whose events a switch has in its cases.
func (f *file) aggregates(s *ast.TypeSwitchStmt) map[string]bool {
	found := map[string]bool{}
	for _, e := range f.cases(s) {
		name, _, _ := strings.Cut(e, ".")
		found[name] = true
	}
	return found
}

func (f *file) cases(s *ast.TypeSwitchStmt) []string {
	var listed []string
	for _, clause := range s.Body.List {
		for _, expr := range clause.(*ast.CaseClause).List {
			if e, ok := f.event(expr); ok {
				listed = append(listed, e)
			}
		}
	}
	return listed
}

// event names a type of an aggregate, as in "feed.Created"; not the interface of its events.
func (f *file) event(expr ast.Expr) (string, bool) {
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name == "Event" {
		return "", false
	}
	pkg, ok := selector.X.(*ast.Ident)
	if !ok || !strings.HasPrefix(f.byName[pkg.Name], "carillon/aggregates/") {
		return "", false
	}
	return pkg.Name + "." + selector.Sel.Name, true
}

// Code that waits for a read model or a process manager names the value that declares it: with a misspelled name it
// would wait until its timeout, without a cause.
func TestWaitsNameTheValue(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !waits(call.Fun) {
				return true
			}
			for _, argument := range call.Args {
				if literal, ok := argument.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					t.Errorf("%s: waits for %s, spelled out", f.fset.Position(call.Pos()), literal.Value)
				}
			}
			return true
		})
	}
}

func waits(function ast.Expr) bool {
	selector, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch selector.Sel.Name {
	case "Await", "See", "Changed", "changed", "Ended", "awaitRouting":
		return true
	}
	return false
}
