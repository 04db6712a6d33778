package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// unguarded are the files, and the packages with all below them, that may start goroutines and timers without a guard,
// with reasons; see docs/decide/0058-panics.md.
var unguarded = map[string]string{
	"carillon/eventstore/node":                       "a panic of the store ends the process",
	"cmd/internal/app/infrastructure.go":             "so does one of what runs the store and Postgres for this process",
	"projections/postgres/process.go":                "so does one of what owns the private Postgres",
	"carillon/cmd/internal/storenode":                "so does one of the store that runs alone",
	"carillon/eventstore/panics":                     "it is the guard, and ends the process on purpose",
	"carillon/eventstore/copying":                    "a subcommand runs it, and ends with an error in either case",
	"carillon/cmd/internal/dev":                      "subcommands for developers run it",
	"cmd/internal/adminapi/events.go":                "at the end of the process, it sets a deadline",
	"carillon/cmd/internal/suite":                    "tests run it",
	"carillon/cmd/internal/httpapi/apitest":          "tests run it",
	"carillon/command/collect/crawl/fetch/hoststest": "tests run it",
	"carillon/eventstore/nodetest":                   "tests run it",
	"carillon/eventstore/storetest":                  "tests run it",
}

func TestGoroutinesAreGuarded(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, f := range sources(t) {
		if f.test || f.generated {
			continue
		}
		for _, line := range f.bareStarts() {
			if except := excepted(&f); except != "" {
				used[except] = true
				continue
			}
			t.Errorf("%s:%d: a panic there ends the process: start it by package panics", f.path, line)
		}
	}
	for except := range unguarded {
		if !used[except] {
			t.Errorf("%s starts nothing without a guard", except)
		}
	}
}

func excepted(f *file) string {
	for except := range unguarded {
		if f.path == except || matches(f.pkg, []string{except + "/..."}) {
			return except
		}
	}
	return ""
}

func TestBareStartsAreFound(t *testing.T) {
	t.Parallel()
	f := file{fset: token.NewFileSet(), byName: map[string]string{"panics": "carillon/eventstore/panics"}}
	for source, want := range map[string]int{
		"go f()": 1, "group.Go(f)": 1, "time.AfterFunc(1, f)": 1, "go func() { f() }()": 1,
		`go panics.Func("part", f)()`: 0, "group.Go(d.guarded(f))": 0, "time.AfterFunc(1, func() { cancel() })": 0,
	} {
		var err error
		f.tree, err = parser.ParseFile(f.fset, "p.go", "package p\nfunc g() {\n"+source+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(f.bareStarts()); got != want {
			t.Errorf("%s: %d, want %d", source, got, want)
		}
	}
}

// bareStarts returns the lines that start a goroutine or a timer without a guard.
func (f *file) bareStarts() (lines []int) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if starts(n) && !f.guards(n) {
			lines = append(lines, f.fset.Position(n.Pos()).Line)
		}
		return true
	})
	return lines
}

func starts(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		called, is := n.Fun.(*ast.SelectorExpr)
		return is && (called.Sel.Name == "Go" || called.Sel.Name == "AfterFunc")
	}
	return false
}

// guards reports whether something started is guarded, or a timer that cancels a context.
func (f *file) guards(started ast.Node) (guarded bool) {
	_, call := started.(*ast.CallExpr)
	ast.Inspect(started, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			left, is := n.X.(*ast.Ident)
			guarded = guarded || is && f.byName[left.Name] == "carillon/eventstore/panics" ||
				strings.HasPrefix(n.Sel.Name, "guarded")
		case *ast.Ident:
			guarded = guarded || call && (n.Name == "cancel" || n.Name == "stop")
		}
		return true
	})
	return guarded
}
