package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// pkg holds what go list says of a package.
type pkg struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
	TestGoFiles, XTestGoFiles          []string
}

// list returns the packages that match patterns.
func list(ctx context.Context, patterns ...string) (all []pkg, err error) {
	arguments := append([]string{"list", "-json"}, patterns...)
	out, err := exec.CommandContext(ctx, "go", arguments...).Output() //nolint:gosec // go
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		switch err := d.Decode(&p); { //nolint:musttag // the names of go list
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, p)
	}
}

// binary is a package's tests, compiled when they are first needed.
type binary struct {
	pkg

	out           io.Writer
	path, overlay string
	flags         []string
	made          sync.Once
	took          time.Duration
	hit           map[int]bool // the mutants that its tests reach; none if a test is red anyway
}

// tests returns the packages with tests.
func tests(all []pkg, out io.Writer, overlay, temporary string) (binaries []*binary) {
	for i, p := range all {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			path := filepath.Join(temporary, strconv.Itoa(i)+".test")
			binaries = append(binaries, &binary{
				pkg:     p,
				out:     out,
				path:    path,
				overlay: overlay,
			})
		}
	}
	return binaries
}

// of returns the tests of a package, and then those of the packages that import it, those of few imports first.
func of(binaries []*binary, importPath string) []*binary {
	users := slices.DeleteFunc(slices.Clone(binaries), func(b *binary) bool {
		return b.ImportPath != importPath && !slices.Contains(b.uses(), importPath)
	})
	slices.SortStableFunc(users, func(a, b *binary) int {
		if a.ImportPath == importPath || b.ImportPath == importPath {
			if a.ImportPath == importPath {
				return -1
			}
			return 1
		}
		return len(a.uses()) - len(b.uses())
	})
	return users
}

func (p *pkg) uses() []string { return slices.Concat(p.Imports, p.TestImports, p.XTestImports) }

// run runs the tests, in the package's directory as go test does, and reports whether they pass.
func (b *binary) run(ctx context.Context, limit time.Duration, env string) (passed bool, output string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path, b.flags...) //nolint:gosec // what was just compiled
	cmd.Dir = b.Dir
	cmd.Env = append(os.Environ(), env)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return err == nil, string(out)
}

// make compiles the tests and runs them without a mutant, which shows what they reach.
func (b *binary) make(ctx context.Context) {
	compiling := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s", //nolint:gosec // go
		"-overlay", b.overlay, "-o", b.path, b.ImportPath)
	if out, err := compiling.CombinedOutput(); err != nil {
		_, _ = fmt.Fprintf(b.out, "left out: %s does not compile: %s\n", b.ImportPath, out)
		return
	}
	b.flags = []string{"-test.short", "-test.failfast"}
	const keepsNothing = "rapid.nofailfile" // what a mutant fails is no case to keep
	if code, err := os.ReadFile(b.path); err == nil && bytes.Contains(code, []byte(keepsNothing)) {
		b.flags = append(b.flags, "-"+keepsNothing)
	}
	hits, err := os.MkdirTemp(filepath.Dir(b.path), "hits")
	if err != nil {
		_, _ = fmt.Fprintf(b.out, "left out: %s: %v\n", b.ImportPath, err)
		return
	}
	begun := time.Now()
	if passed, output := b.run(ctx, 10*time.Minute, "CARILLON_MUTANT_HITS="+hits); !passed {
		end := output[max(0, len(output)-1000):]
		_, _ = fmt.Fprintf(b.out, "left out: %s is red without a mutant: …%s\n", b.ImportPath, end)
		return
	}
	b.took = time.Since(begun)
	b.hit = map[int]bool{}
	files, _ := filepath.Glob(filepath.Join(hits, "*"))
	for _, f := range files {
		n, _ := strconv.Atoi(filepath.Base(f))
		b.hit[n] = true
	}
}

// try runs the tests with a mutant, until those of a package notice it.
func (m mutant) try(ctx context.Context, binaries []*binary) (by string, reached bool) {
	for _, b := range of(binaries, m.importPath) {
		b.made.Do(func() { b.make(ctx) })
		if !b.hit[m.number] {
			continue
		}
		reached = true
		if passed, _ := b.run(ctx, 3*b.took+20*time.Second, "CARILLON_MUTANT="+strconv.Itoa(m.number)); !passed {
			return b.ImportPath, true
		}
	}
	return "", reached
}

// overlay writes the mutated files, and the file by which go build reads them.
func overlay(root, temporary string, mutants []mutant) (string, error) {
	byFile := map[string][]mutant{}
	for _, m := range mutants {
		byFile[m.file] = append(byFile[m.file], m)
	}
	replace := map[string]string{filepath.Join(root, "mutants", "mutants.go"): filepath.Join(temporary, "mutants.go")}
	if err := os.WriteFile(filepath.Join(temporary, "mutants.go"), []byte(helper), 0o600); err != nil {
		return "", err
	}
	for file, of := range byFile {
		source, err := os.ReadFile(filepath.Join(root, file)) //nolint:gosec // of this module
		if err != nil {
			return "", err
		}
		changed := filepath.Join(temporary, of[0].overlaid())
		if err := os.WriteFile(changed, mutated(source, of), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = changed
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(temporary, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
