package arch

import (
	"go/ast"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	link       = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	identifier = regexp.MustCompile("^`([A-Za-z_]+)(\\.([A-Za-z_]+))?`$")
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Pages rot by their links first. A link whose text is `name` or `Type.method` and whose target is a Go file says that
// it is declared there.
func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text := content(t, page)
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			label, target := found[1], found[2]
			if strings.Contains(target, "://") {
				continue
			}
			file, fragment, _ := strings.Cut(target, "#")
			at := page
			if file != "" {
				at = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			info, err := os.Stat(at)
			if err != nil {
				t.Errorf("%s links to %s, which is not there", page, target)
				continue
			}
			if fragment != "" && !info.IsDir() && !hasHeading(content(t, at), fragment) {
				t.Errorf("%s links to %s, which has no such heading", page, target)
			}
			if name := identifier.FindStringSubmatch(label); name != nil && strings.HasSuffix(at, ".go") &&
				!declares(t, at, name[1], name[3]) {
				t.Errorf("%s names %s in %s, which does not declare it", page, label, target)
			}
		}
	}
}

// TestArchitectureNamesEveryFolder compares the folders with the README, which names the top ones, and with the
// architecture page, which names those below as well. Folders of tests, and those below a named folder, may be missing.
func TestArchitectureNamesEveryFolder(t *testing.T) {
	t.Parallel()
	const depth = 2 // "command/delivery" is named, "command/collect/crawl/fetch" belongs to "command/collect"
	top, all := content(t, filepath.Join(root, "README.md")), content(t, filepath.Join(root, "docs", "understand",
		"architecture.md"))
	for _, f := range sources(t) {
		folders := strings.Split(path.Dir(f.path), "/")
		if !strings.Contains(top, "`"+folders[0]+"`") {
			t.Errorf("README.md does not name %s", folders[0])
		}
		folders = folders[:min(len(folders), depth)]
		last := folders[len(folders)-1]
		if !strings.HasSuffix(last, "test") && !strings.Contains(all, "`"+last+"`") &&
			!strings.Contains(all, "`"+strings.Join(folders, "/")+"`") {
			t.Errorf("docs/understand/architecture.md does not name %s", strings.Join(folders, "/"))
		}
	}
}

// TestDecisionsHaveFourParts requires each decision to be one page in context, decision, consequences and alternatives,
// and to be in the index.
func TestDecisionsHaveFourParts(t *testing.T) {
	t.Parallel()
	const maxLines = 60
	folder := filepath.Join(root, "docs", "decide")
	names, err := filepath.Glob(filepath.Join(folder, "0*.md"))
	must.True(t, err == nil && len(names) != 0, "%d decisions: %v", len(names), err)
	index := content(t, filepath.Join(folder, "README.md"))
	for _, name := range names {
		text, rest := content(t, name), content(t, name)
		for _, part := range []string{"Context", "Decision", "Consequences", "Alternatives"} {
			_, after, found := strings.Cut(rest, "\n## "+part+"\n")
			if !found {
				t.Errorf("%s lacks %q, in this order", name, part)
				continue
			}
			rest = after
		}
		lines := strings.Count(text, "\n")
		assert.True(t, lines <= maxLines, "%s has %d lines: a decision is one page of %d", name, lines, maxLines)
		assert.True(t, strings.Contains(index, "("+filepath.Base(name)+")"), "%s is not in the index", name)
	}
}

var (
	testName     = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z]\\w*)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Z]\w*)\(`)
)

// The tables of promises name tests that exist, and each row names one or a target of make.
func TestPromisesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	declared := declaredTests(t)
	rows := 0
	for _, page := range pages(t) {
		if filepath.Base(filepath.Dir(page)) != "internal" {
			continue
		}
		for line := range strings.Lines(content(t, page)) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Sentence |") {
				continue
			}
			rows++
			if !testName.MatchString(line) && !strings.Contains(line, "`make ") {
				t.Errorf("%s names no test: %s", page, line)
			}
			for _, found := range testName.FindAllStringSubmatch(line, -1) {
				if !declared[found[1]] {
					t.Errorf("%s names %s, which is not declared", page, found[1])
				}
			}
		}
	}
	assert.True(t, rows >= 400, "the tables have %d rows", rows)
}

// declaredTests reads the names of all tests, those with the build tag nightly too, which sources leaves out.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	must.OK(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name, entry.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(name, "_test.go"):
			for _, found := range testFunction.FindAllStringSubmatch(content(t, name), -1) {
				declared[found[1]] = true
			}
		}
		return nil
	}))
	return declared
}

func pages(t *testing.T) []string {
	t.Helper()
	list := []string{filepath.Join(root, "README.md")}
	must.OK(t, filepath.WalkDir(filepath.Join(root, "docs"), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".md") {
			list = append(list, name)
		}
		return err
	}))
	return list
}

func content(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

// hasHeading knows how Markdown viewers make fragments: lower case, no punctuation, dashes for spaces.
func hasHeading(text, fragment string) bool {
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")
		if slug == fragment {
			return true
		}
	}
	return false
}

// declares reports whether a file declares a function, type, variable or constant, or a method of a type.
func declares(t *testing.T, path, name, method string) bool {
	t.Helper()
	f := must.Get(read(path))(t)
	for _, decl := range f.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			receiver := receiverOf(d)
			if method == "" && receiver == "" && d.Name.Name == name || receiver == name && d.Name.Name == method {
				return true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if method == "" && specNames(spec, name) {
					return true
				}
			}
		}
	}
	return false
}

func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if ident, ok := t.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

func specNames(spec ast.Spec, name string) bool {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Name.Name == name
	case *ast.ValueSpec:
		for _, ident := range s.Names {
			if ident.Name == name {
				return true
			}
		}
	}
	return false
}

var (
	metric         = regexp.MustCompile(`carillon_[a-z_]+`)
	declaredMetric = regexp.MustCompile(`(?:NewDesc\(|Name: +)"(carillon_[a-z_]+)"`)
)

// The dashboard and the pages show metrics that the program has, and the page for operators all of them.
func TestMetricsThatAreShownAreThere(t *testing.T) {
	t.Parallel()
	const forOperators = "docs/operate/monitor.md"
	known, shown := map[string]bool{}, content(t, filepath.Join(root, forOperators))
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, declared := range declaredMetric.FindAllStringSubmatch(content(t, filepath.Join(root, f.path)), -1) {
			known[declared[1]] = true
			assert.True(t, strings.Contains(shown, "`"+declared[1]+"`"), "%s lacks %s", forOperators, declared[1])
		}
	}
	for _, page := range []string{"deploy/grafana-dashboard.json", "deploy/alerts.yaml", forOperators} {
		for _, name := range metric.FindAllString(content(t, filepath.Join(root, page)), -1) {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				name = strings.TrimSuffix(name, suffix)
			}
			assert.True(t, known[name], "%s shows %s, which does not exist", page, name)
		}
	}
}

var documentedAlert = regexp.MustCompile("(?m)^\\| `(Carillon[A-Za-z]+)` \\| .+ \\| .+ \\|$")

// The page for operators has a remedy for each alert, in the same order.
func TestAlertsHaveRemedies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "deploy/alerts.yaml")
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Expr        string
				Annotations struct{ Summary string }
			}
		}
	}
	must.OK(t, yaml.Unmarshal([]byte(content(t, path)), &file))
	var alerts, documented []string
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			alerts = append(alerts, rule.Alert)
			assert.True(t, rule.Expr != "" && rule.Annotations.Summary != "",
				"alert %q lacks its expression or summary", rule.Alert)
		}
	}
	page := content(t, filepath.Join(root, "docs/operate/monitor.md"))
	for _, row := range documentedAlert.FindAllStringSubmatch(page, -1) {
		documented = append(documented, row[1])
	}
	assert.True(t, len(alerts) != 0 && slices.Equal(alerts, documented),
		"deploy/alerts.yaml has %q, docs/operate/monitor.md %q", alerts, documented)
	if promtool, err := exec.LookPath("promtool"); err == nil {
		out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", path).CombinedOutput()
		assert.True(t, err == nil, "promtool: %v: %s", err, out)
	}
}
