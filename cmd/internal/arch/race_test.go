package arch

import (
	"go/ast"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Tests that do less beside the race detector are run whole without it as well, or nobody would run the rest of them.
func TestWhatTheRaceDetectorLeavesOutIsRunWithoutIt(t *testing.T) {
	t.Parallel()
	planned := exec.CommandContext(t.Context(), "make", "-n", "race", "RACE=-race -short")
	planned.Dir = root
	plan, err := planned.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\S+ test [^\n]*-run '(\S+)' (.*)$`).FindSubmatch(plan)
	if found == nil {
		t.Fatalf("make race runs no tests without the race detector:\n%s", plan)
	}
	run, packages := regexp.MustCompile(string(found[1])), strings.Fields(string(found[2]))
	halved := 0
	for _, f := range sources(t) {
		for _, decl := range f.tree.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || !mentions(function, "Short") && !mentions(function, "raced") {
				continue
			}
			halved++
			at := "./" + strings.TrimPrefix(f.pkg, module+"/")
			if strings.HasPrefix(function.Name.Name, "Test") && !run.MatchString(function.Name.Name) || !strings.Contains(" "+strings.Join(packages, " ")+" ", " "+at+" ") {
				t.Errorf("%s: %s is not run without the race detector", f.path, function.Name.Name)
			}
		}
	}
	if halved < 10 {
		t.Errorf("found only %d", halved)
	}
}

func mentions(function *ast.FuncDecl, name string) (hit bool) {
	ast.Inspect(function, func(n ast.Node) bool {
		ident, ok := n.(*ast.Ident)
		hit = hit || ok && ident.Name == name
		return !hit
	})
	return hit
}
