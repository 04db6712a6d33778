package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// unguarded are the files, and the packages with all below them, that may start goroutines and timers without a guard,
// with reasons; see docs/decide/0058-panics.md.
var unguarded = map[string]string{
	"carillon/eventstore/node":                       "a panic of the store ends the process",
	"cmd/internal/app/stores.go":                     "so does one of what runs the store for this process",
	"cmd/internal/app/database.go":                   "so does one of what runs Postgres for this process",
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
		assert.True(t, used[except], "%s starts nothing without a guard", except)
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
		"searches.DoChan(key, f)": 1, "searches.DoChan(key, func() (any, error) { return d.guardedSearch() })": 0,
		`go func() { _ = panics.Catch("part", f); g() }()`: 1, "group.Go(func() { cancel(); f() })": 1,
		`go func() { defer close(done); _ = panics.Catch("part", f) }()`: 0,
	} {
		var err error
		f.tree, err = parser.ParseFile(f.fset, "p.go", "package p\nfunc g() {\n"+source+"\n}", parser.SkipObjectResolution)
		must.OK(t, err)
		assert.Equal(t, len(f.bareStarts()), want, "%s", source)
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

// starters are the functions by which a goroutine or a timer begins.
var starters = map[string]bool{"Go": true, "AfterFunc": true, "DoChan": true}

func starts(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		called, is := n.Fun.(*ast.SelectorExpr)
		return is && starters[called.Sel.Name]
	}
	return false
}

// guards reports whether all that something started does is in a guard, or harmless.
func (f *file) guards(started ast.Node) (guarded bool) {
	if statement, is := started.(*ast.GoStmt); is {
		return f.guarded(statement.Call)
	}
	call := started.(*ast.CallExpr) //nolint:forcetypeassert,errcheck // see starts
	return len(call.Args) > 0 && f.guarded(call.Args[len(call.Args)-1])
}

// harmless are functions that can't panic: what else a started function may call outside its guard.
var harmless = map[string]bool{"cancel": true, "stop": true, "close": true, "unfollow": true, "Err": true}

// guarded reports whether a started function, or a call of one, is a guard, or calls nothing else.
func (f *file) guarded(started ast.Expr) bool {
	switch n := started.(type) {
	case *ast.Ident:
		return harmless[n.Name]
	case *ast.CallExpr:
		if literal, is := n.Fun.(*ast.FuncLit); is {
			return f.guarded(literal)
		}
		return f.guard(n)
	case *ast.FuncLit:
		all := true
		ast.Inspect(n.Body, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			if f.guard(call) {
				return false
			}
			all = all && harmless[calledName(call)]
			return true
		})
		return all
	}
	return false
}

// guard reports whether a call is one of package panics or of a method that is named for it, or calls its result.
func (f *file) guard(call *ast.CallExpr) bool {
	if inner, is := call.Fun.(*ast.CallExpr); is {
		return f.guard(inner)
	}
	called, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	left, is := called.X.(*ast.Ident)
	return is && f.byName[left.Name] == "carillon/eventstore/panics" || strings.HasPrefix(called.Sel.Name, "guarded")
}

func calledName(call *ast.CallExpr) string {
	switch called := call.Fun.(type) {
	case *ast.Ident:
		return called.Name
	case *ast.SelectorExpr:
		return called.Sel.Name
	}
	return ""
}
