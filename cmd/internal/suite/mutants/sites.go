package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// site is a place of the source that can be changed without changing any type: a statement is left out, a condition
// is turned round, a field of a literal stays empty.
type site struct {
	importPath string
	file       string
	line       int
	from, to   int // offsets of what is wrapped
	clause     int // where the package clause of the file ends
	wrap       [2]string
	what       string
}

func (s site) String() string { return fmt.Sprintf("%s:%d: %s", s.file, s.line, s.what) }

// The ways of a change, as what stands before and after it. %[1]d is the number of the mutant.
var (
	leaveOut = [2]string{"if !mutants__.On(%[1]d) { ", " }"}
	turn     = [2]string{"mutants__.Not(%[1]d, ", ")"}
	empty    = [2]string{"mutants__.Zero(%[1]d, ", ")"}
)

// helper is the package that mutated files import.
const helper = `package mutants

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

var (
	active = os.Getenv("CARILLON_MUTANT")
	hits   = os.Getenv("CARILLON_MUTANT_HITS")
	seen   sync.Map
)

func On(n int) bool {
	if hits != "" {
		if _, again := seen.LoadOrStore(n, true); !again {
			_ = os.WriteFile(filepath.Join(hits, strconv.Itoa(n)), nil, 0o666)
		}
		return false
	}
	return active != "" && active == strconv.Itoa(n)
}

func Not[T ~bool](n int, v T) T { return v != T(On(n)) }

func Zero[T any](n int, v T) T {
	if On(n) {
		var zero T
		return zero
	}
	return v
}
`

// sitesOf returns the places of the non-test files of a package.
func sitesOf(root string, p pkg) (all []site, err error) {
	files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file) //nolint:gosec // of this module
		if err != nil {
			return nil, err
		}
		positions := token.NewFileSet()
		tree, err := parser.ParseFile(positions, file, source, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if ast.IsGenerated(tree) {
			continue
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			at := func(n ast.Node, wrap [2]string, verb string) {
				from, to := positions.Position(n.Pos()), positions.Position(n.End())
				text, more, _ := strings.Cut(string(source[from.Offset:to.Offset]), "\n")
				if more != "" {
					text += " …"
				}
				all = append(all, site{
					importPath: p.ImportPath,
					file:       relative,
					line:       from.Line,
					from:       from.Offset,
					to:         to.Offset,
					clause:     positions.Position(tree.Name.End()).Offset,
					wrap:       wrap,
					what:       verb + " " + text,
				})
			}
			visit(n, at)
			return true
		})
	}
	return all, nil
}

// visit calls at for what can be changed directly below a node.
func visit(n ast.Node, at func(ast.Node, [2]string, string)) {
	switch n := n.(type) {
	case *ast.BlockStmt:
		statements(n.List, at)
	case *ast.CaseClause:
		statements(n.Body, at)
	case *ast.CommClause:
		statements(n.Body, at)
	case *ast.IfStmt:
		at(n.Cond, turn, "turned round:")
	case *ast.ForStmt:
		if n.Cond != nil {
			at(n.Cond, turn, "turned round:")
		}
	case *ast.ReturnStmt:
		if len(n.Results) == 1 && boolean(n.Results[0]) {
			at(n.Results[0], turn, "turned round:")
		}
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				if _, literal := pair.Value.(*ast.CompositeLit); !literal {
					at(pair.Value, empty, "left empty:")
				}
			}
		}
	}
}

func statements(list []ast.Stmt, at func(ast.Node, [2]string, string)) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != "panic" {
					at(s, leaveOut, "left out:")
				}
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				at(s, leaveOut, "left out:")
			}
		case *ast.IncDecStmt, *ast.SendStmt:
			at(s, leaveOut, "left out:")
		case *ast.BranchStmt:
			if s.Tok == token.CONTINUE {
				at(s, leaveOut, "left out:")
			}
		}
	}
}

// boolean reports whether an expression is one by its operator.
func boolean(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		return e.Op == token.NOT
	case *ast.BinaryExpr:
		return slices.Contains([]token.Token{
			token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.GTR, token.LEQ, token.GEQ,
		}, e.Op)
	}
	return false
}

// mutant is a site that was chosen.
type mutant struct {
	site

	number int
}

// overlaid is the name of the changed file, by which the compiler speaks of it.
func (m mutant) overlaid() string { return strings.ReplaceAll(m.file, "/", "_") }

// mutated returns a file with its mutants, each switched on by its number. Lines stay where they are.
func mutated(source []byte, mutants []mutant) []byte {
	inserted := map[int]string{mutants[0].clause: `; import mutants__ "carillon/mutants"`}
	slices.SortFunc(mutants, func(a, b mutant) int { return a.from - b.from })
	for _, m := range mutants { // what is inside comes later, and ends first
		inserted[m.from] += fmt.Sprintf(m.wrap[0], m.number)
		inserted[m.to] = m.wrap[1] + inserted[m.to]
	}
	var out []byte
	for i := range len(source) + 1 {
		out = append(out, inserted[i]...)
		if i < len(source) {
			out = append(out, source[i])
		}
	}
	return out
}
