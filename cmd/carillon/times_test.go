package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestTimesHaveOneFormat finds code of commands that formats a time itself.
func TestTimesHaveOneFormat(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"cmd/carillon", "cmd/internal/listen"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if ok && (method.Sel.Name == "Format" || method.Sel.Name == "AppendFormat" || method.Sel.Name == "Local") {
					t.Errorf("%s: a cell of row, moment or instant.Shown shows a time", set.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

var shownTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[^\s,]*( \d\d:[^\s,]*)?`)

// TestTimesInZone runs commands that show times.
func TestTimesInZone(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Zones")
	s.ok("key", "issue", org, "--expires", "2027-01-01T00:00:00Z")
	s.ok("operator", "issue", "zoe-"+uuid.NewString()[:8], "--expires", "720h")
	s.ok("source", "add", "site", "https://example.org/zones")
	s.ok("audit", "seal")
	for _, command := range []string{
		"org list", "key list " + org, "operator list", "source list", "audit organization " + org, "audit seal --show",
	} {
		for zone, flags := range map[string][]string{"+05:45": nil, "Z": {"--utc"}} {
			out := s.ok(append(strings.Fields(command), flags...)...)
			if !strings.Contains(out, zone) {
				t.Errorf("%s %v shows no time:\n%s", command, flags, out)
			}
			for _, at := range shownTime.FindAllString(out, -1) {
				if _, err := time.Parse(time.RFC3339, at); err != nil || !strings.HasSuffix(at, zone) {
					t.Errorf("%s %v shows %q", command, flags, at)
				}
			}
		}
	}
}
