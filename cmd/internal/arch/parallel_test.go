package arch

import (
	"go/ast"
	"strings"
	"testing"
)

// Tests run in parallel, directly or by a fixture that says so. Those that set variables can't, nor can tortures. Any
// other one that can't has a comment that says why, with the word "parallel" in it.
func TestTestsRunInParallel(t *testing.T) {
	t.Parallel()
	byPackage, explained := map[string][]*ast.FuncDecl{}, map[*ast.FuncDecl]bool{}
	for _, f := range sources(t) {
		if !f.test || strings.HasSuffix(f.path, "torture_test.go") {
			continue
		}
		for _, decl := range f.tree.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil {
				byPackage[f.pkg] = append(byPackage[f.pkg], d)
				explained[d] = commented(&f, d)
			}
		}
	}
	for pkg, functions := range byPackage {
		parallel := callers(functions, "Parallel")
		excused := callers(functions, "Setenv", "Chdir")
		for _, d := range functions {
			name := d.Name.Name
			if !strings.HasPrefix(name, "Test") || name == "TestMain" || d.Recv != nil || parallel[name] {
				continue
			}
			if !excused[name] && !explained[d] {
				t.Errorf("%s.%s does not run in parallel", pkg, name)
			}
		}
	}
}

func commented(f *file, d *ast.FuncDecl) bool {
	for _, group := range f.tree.Comments {
		inside := group.Pos() >= d.Pos() && group.End() <= d.End()
		if (inside || group == d.Doc) && strings.Contains(strings.ToLower(group.Text()+group.List[0].Text), "parallel") {
			return true
		}
	}
	return false
}

// callers finds the functions that call one of some methods, directly or through another of the functions.
func callers(functions []*ast.FuncDecl, methods ...string) map[string]bool {
	found := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for _, d := range functions {
			if !found[d.Name.Name] && calls(d.Body, found, methods) {
				found[d.Name.Name], changed = true, true
			}
		}
	}
	return found
}

func calls(body *ast.BlockStmt, known map[string]bool, methods []string) bool {
	hit := false
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !hit
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			hit = hit || known[f.Name]
		case *ast.SelectorExpr:
			for _, method := range methods {
				hit = hit || f.Sel.Name == method
			}
			hit = hit || known[f.Sel.Name]
		}
		return !hit
	})
	return hit
}
