package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// aggregate is one package under aggregates.
type aggregate struct {
	name     string // of the package
	doc      string
	category string
	events   []event
	readers  []string // packages that decode its events, from the root
}

// event is a stored fact.
type event struct {
	name    string // as stored
	old     bool   // read by an upcast, no longer written
	doc     string
	fields  []field
	example []byte // as stored
}

// syntax is that of a package without its tests.
type syntax struct {
	doc   string
	files []*ast.File
	types map[string]declared
}

type declared struct {
	spec *ast.TypeSpec
	doc  string
}

func readAggregates(root string) ([]*aggregate, error) {
	entries, err := os.ReadDir(filepath.Join(root, "aggregates"))
	if err != nil {
		return nil, fmt.Errorf("list aggregates: %w", err)
	}
	var list []*aggregate
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		a, err := readAggregate(filepath.Join(root, "aggregates", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("aggregate %s: %w", entry.Name(), err)
		}
		list = append(list, a)
	}
	return list, nil
}

func readAggregate(dir string) (*aggregate, error) {
	src, err := parse(dir)
	if err != nil {
		return nil, err
	}
	a := &aggregate{name: filepath.Base(dir), doc: src.doc}
	for _, file := range src.files {
		var failed error
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if e, is, err := eventOf(n, src, dir); err != nil {
					failed = err
				} else if is {
					a.events = append(a.events, e)
				}
			case *ast.KeyValueExpr:
				if key, is := n.Key.(*ast.Ident); is && key.Name == "Category" {
					a.category = literal(n.Value)
				}
			}
			return failed == nil
		})
		if failed != nil {
			return nil, failed
		}
	}
	if a.category == "" || len(a.events) == 0 {
		return nil, errors.New("has no category or no events")
	}
	return a, nil
}

// eventOf reads a line of a codec: eventstore.Case[Event, T]("name") or eventstore.Upcast[Event, T]("name", …).
func eventOf(call *ast.CallExpr, src *syntax, dir string) (e event, is bool, err error) {
	index, ok := call.Fun.(*ast.IndexListExpr)
	if !ok || len(index.Indices) != 2 || len(call.Args) == 0 {
		return event{}, false, nil
	}
	function, ok := index.X.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "Case" && function.Sel.Name != "Upcast" {
		return event{}, false, nil
	}
	e = event{name: literal(call.Args[0]), old: function.Sel.Name == "Upcast"}
	goType, ok := index.Indices[1].(*ast.Ident)
	if !ok || e.name == "" {
		return event{}, false, errors.New("an event is not named by a literal or not of a type of its package")
	}
	found, ok := src.types[goType.Name]
	if !ok {
		return event{}, false, fmt.Errorf("type %s is not declared", goType.Name)
	}
	e.doc = strings.Join(strings.Fields(found.doc), " ")
	e.fields = src.fields(found.spec.Type, "", nil)
	e.example, err = os.ReadFile(filepath.Join(dir, "testdata", e.name+".json")) //nolint:gosec // within the repository
	if err != nil {
		return event{}, false, fmt.Errorf("golden file of %s: %w", e.name, err)
	}
	return e, true, nil
}

func literal(e ast.Expr) string {
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(basic.Value)
	if err != nil {
		return ""
	}
	return text
}

func parse(dir string) (*syntax, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	src := &syntax{types: map[string]declared{}}
	fset := token.NewFileSet()
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(dir, entry.Name()), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		src.files = append(src.files, file)
		if file.Doc != nil {
			src.doc = file.Doc.Text()
		}
		src.declare(file)
	}
	return src, nil
}

func (s *syntax) declare(file *ast.File) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			typeSpec, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			doc := typeSpec.Doc.Text()
			if doc == "" && len(general.Specs) == 1 {
				doc = general.Doc.Text()
			}
			s.types[typeSpec.Name.Name] = declared{typeSpec, doc}
		}
	}
}

// addReaders finds the packages that decode an aggregate's events: they mention <aggregate>.Events. Test kits, whose
// names end in test, are none.
func addReaders(root string, aggregates []*aggregate) error {
	byName := map[string]*aggregate{}
	for _, a := range aggregates {
		byName[a.name] = a
	}
	for _, top := range []string{"projections", "command"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				strings.HasSuffix(filepath.Dir(name), "test") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, filepath.Dir(name))
			if err != nil {
				return err
			}
			for _, decoded := range decodes(file) {
				if a := byName[decoded]; a != nil {
					a.readers = append(a.readers, filepath.ToSlash(relative))
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("readers of events: %w", err)
		}
	}
	for _, a := range aggregates {
		slices.Sort(a.readers)
		a.readers = slices.Compact(a.readers)
	}
	return nil
}

func decodes(file *ast.File) []string {
	aggregates := map[string]string{} // by the name that the file gives the import
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || path.Dir(imported) != "carillon/aggregates" {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		aggregates[name] = path.Base(imported)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok && selector.Sel.Name == "Events" {
			if left, ok := selector.X.(*ast.Ident); ok && aggregates[left.Name] != "" {
				found = append(found, aggregates[left.Name])
			}
		}
		return true
	})
	return found
}

// readMetadata reads what accompanies every event.
func readMetadata(root string) ([]field, error) {
	src, err := parse(filepath.Join(root, "eventstore"))
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	found, ok := src.types["Metadata"]
	if !ok {
		return nil, errors.New("metadata: the type is not declared")
	}
	return src.fields(found.spec.Type, "", nil), nil
}
