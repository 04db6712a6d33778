package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A busy machine takes seconds for what a quiet one does at once, so no test fails for them: tests wait by the minute,
// and log durations or compare them with a fake clock. Benchmarks and tortures, whose subject is time, may judge it.
func TestNoWallClockAssertions(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		special := strings.Contains(f.path, "bench") || strings.Contains(path.Base(f.path), "torture")
		if !f.test || special || slices.Contains(f.imports(), "testing/synctest") {
			continue
		}
		for _, decl := range f.tree.Decls {
			for _, at := range hurries(decl) {
				t.Errorf("%s:%d fails on a busy machine: wait by the minute, log what it took, or use testing/synctest",
					f.path, f.fset.Position(at).Line)
			}
		}
		f.uses(func(importPath, name string, line int) {
			if importPath == "time" && name == "Since" {
				t.Errorf("%s:%d measures time: use testing/synctest or a clock that is handed in, or tag the file nightly",
					f.path, line)
			}
		})
	}
}

// hurries finds comparisons of elapsed seconds in a declaration.
func hurries(decl ast.Decl) (found []token.Pos) {
	measured := map[string]bool{} // variables that hold what time.Since gave
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			name, ok := n.Lhs[0].(*ast.Ident)
			if !ok {
				return true
			}
			measured[name.Name] = isTime(n.Rhs[0], "Since")
			if name.Name == "deadline" && countsSeconds(n.Rhs[0]) {
				found = append(found, n.Pos())
			}
		case *ast.BinaryExpr:
			if upper := n.Op == token.GTR || n.Op == token.GEQ; upper && isMeasured(n.X, measured) && countsSeconds(n.Y) {
				found = append(found, n.Pos())
			}
		case *ast.CommClause:
			receive, ok := n.Comm.(*ast.ExprStmt)
			if !ok {
				return true
			}
			from, ok := receive.X.(*ast.UnaryExpr)
			if ok && isTime(from.X, "After") && countsSeconds(from.X) &&
				calls(&ast.BlockStmt{List: n.Body}, nil, []string{"Fatal", "Fatalf", "Error", "Errorf"}) {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// isTime reports whether an expression calls a function of package time.
func isTime(e ast.Expr, name string) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && isSelector(call.Fun, "time", name)
}

func isSelector(e ast.Expr, x, name string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == x
}

// isMeasured reports whether an expression is a result of time.Since, or that in some unit.
func isMeasured(e ast.Expr, variables map[string]bool) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok && len(call.Args) == 0 {
			return isMeasured(selector.X, variables)
		}
	}
	name, ok := e.(*ast.Ident)
	return ok && variables[name.Name] || isTime(e, "Since")
}

// countsSeconds reports whether an expression is a number, or a number of seconds.
func countsSeconds(e ast.Expr) (counts bool) {
	if _, isNumber := e.(*ast.BasicLit); isNumber {
		return true
	}
	ast.Inspect(e, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			counts = counts || isSelector(e, "time", "Second") || isSelector(e, "time", "Millisecond")
		}
		return !counts
	})
	return counts
}

func TestHurriesAreFound(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]int{
		`if took := time.Since(began); took > 10*time.Second { t.Error(took) }`:        1,
		`if took := time.Since(began); took.Seconds() > 2 { t.Error(took) }`:           1,
		`if time.Since(began) >= 2*time.Second { t.Error(1) }`:                         1,
		`if took := time.Since(began); took < 2*time.Second { t.Error(took) }`:         0,
		`if time.Since(began) > patience { t.Error(1) }`:                               0,
		`select { case <-done: case <-time.After(10 * time.Second): t.Fatal("late") }`: 1,
		`select { case <-done: case <-time.After(patience): t.Fatal("late") }`:         0,
		`select { case <-done: t.Fatal("early"); case <-time.After(time.Second): }`:    0,
		`for deadline := time.Now().Add(30 * time.Second); !done(); {}`:                1,
		`for deadline := time.Now().Add(2 * time.Minute); !done(); {}`:                 0,
	} {
		tree := must.Get(parser.ParseFile(token.NewFileSet(), "p.go", "package p\nfunc f() {\n"+source+"\n}",
			parser.SkipObjectResolution))(t)
		assert.Equal(t, len(hurries(tree.Decls[0])), want, "%s: found", source)
	}
}
