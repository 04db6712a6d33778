package arch

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"carillon/eventstore/storetest/must"
)

const (
	module = "carillon"
	root   = "../../.." // of the repository, seen from here
)

// file is one Go file of the module.
type file struct {
	path      string // from the root, with slashes
	pkg       string // import path
	test      bool
	lines     int
	generated bool
	tree      *ast.File
	fset      *token.FileSet
	byName    map[string]string // import paths by the names that they have in the file
}

// sources are all Go files that are ever built; files in testdata and behind constraints that never hold are not. They
// are read once for all tests, which change nothing in them.
func sources(t *testing.T) []file {
	t.Helper()
	list := must.Get(allSources())(t)
	must.True(t, len(list) != 0, "no source found")
	return list
}

var allSources = sync.OnceValues(func() (list []file, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		built, err := build.Default.MatchFile(filepath.Dir(name), entry.Name())
		if err != nil || !built {
			return err
		}
		f, err := read(name)
		list = append(list, f)
		return err
	})
	return list, err
})

// skipped reports whether a directory holds no source: data, and other folders of the top.
func skipped(name, base string) bool {
	if name == root {
		return false
	}
	return base == "testdata" || strings.HasPrefix(base, ".") && base != ".." ||
		filepath.Dir(name) == root && (base == "data" || base == "bin")
}

// read returns a file by its name as seen from here; each is parsed once.
func read(name string) (file, error) {
	once, _ := files.LoadOrStore(filepath.Clean(name), sync.OnceValues(func() (file, error) { return parse(name) }))
	return once.(func() (file, error))()
}

var files sync.Map // by name: func() (file, error)

func parse(name string) (file, error) {
	relative, err := filepath.Rel(root, name)
	if err != nil {
		return file{}, err
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return file{}, err
	}
	f := file{path: filepath.ToSlash(relative), test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet()}
	f.pkg = path.Join(module, path.Dir(f.path))
	f.lines = bytes.Count(content, []byte("\n"))
	f.tree, err = parser.ParseFile(f.fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err == nil {
		f.generated, f.byName = ast.IsGenerated(f.tree), importsByName(f.tree)
	}
	return f, err
}

// imports lists what a file imports.
func (f *file) imports() []string {
	paths := make([]string, 0, len(f.tree.Imports))
	for _, spec := range f.tree.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// uses yields the uses of functions of other packages, by import path.
func (f *file) uses(yield func(importPath, name string, line int)) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if left, ok := selector.X.(*ast.Ident); ok && f.byName[left.Name] != "" {
			yield(f.byName[left.Name], selector.Sel.Name, f.fset.Position(selector.Pos()).Line)
		}
		return true
	})
}

// importsByName returns the import paths by their names in the file.
func importsByName(tree *ast.File) map[string]string {
	byName := map[string]string{}
	for _, spec := range tree.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(importPath)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		byName[name] = importPath
	}
	return byName
}
