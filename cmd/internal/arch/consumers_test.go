package arch

import (
	"go/ast"
	"go/token"
	"testing"
)

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
