package arch

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const (
	maxColumns  = 120
	maxTestName = 45
	maxInline   = 3 // fields of a literal that may share a line
)

// The rules of words that a program can check.
const (
	ruleDocs     = "a doc comment begins with its identifier"
	ruleStates   = "a doc comment states: returns, reports whether, appends"
	ruleSubject  = "a sentence has a noun as its subject"
	ruleTests    = "a test is named after the thing and the case, in at most 45 characters"
	ruleColumns  = "a line has at most 120 columns"
	ruleLiterals = "a literal of more than three fields has one a line"
	rulePlain    = "a word of testdata/plain.txt has a plain one"
)

var (
	// narratingVerbs follow an identifier in a doc comment that narrates instead of stating.
	narratingVerbs = regexp.MustCompile(`^\S+ (?:gives|is what)\b`)
	// headlessSubject begins a sentence without a noun.
	headlessSubject = regexp.MustCompile(`(?:^|[.:;!?] )(?:What|Who|Whoever|Nobody|Where it)\b`)
	storyName       = regexp.MustCompile(`^Test(?:What|Who|Nobody|A|The|Of|One)(?:[A-Z_]|$)`)
)

// plainWords returns what to write instead of names, and of phrases in comments and texts. testdata/plain.txt has the
// phrases in quotes.
var plainWords = sync.OnceValues(func() (map[string]string, *regexp.Regexp) {
	list, err := os.ReadFile("testdata/plain.txt")
	if err != nil {
		panic(err)
	}
	instead, phrases := map[string]string{}, []string{}
	for line := range strings.Lines(string(list)) {
		word, plain, _ := strings.Cut(strings.TrimSpace(line), ": ")
		instead[word] = plain
		if phrase, err := strconv.Unquote(word); err == nil {
			phrases = append(phrases, regexp.QuoteMeta(phrase))
		}
	}
	return instead, regexp.MustCompile(`\b(?:` + strings.Join(phrases, "|") + `)(?:\b|$)`)
})

// complaint is a breach of a rule of words at a place.
type complaint struct{ rule, place, text string }

// complaints returns what breaks the rules of words in one file.
func complaints(f file, source string) []complaint {
	var found []complaint
	add := func(rule string, pos token.Pos, text string) {
		found = append(found, complaint{rule, f.fset.Position(pos).String(), text})
	}
	instead, phrases := plainWords()
	plain := func(pos token.Pos, text string) {
		for _, phrase := range phrases.FindAllString(text, -1) {
			add(rulePlain, pos, phrase)
		}
	}
	tagged := taggedLines(f)
	for i, line := range strings.Split(source, "\n") {
		if columns := utf8.RuneCountInString(line); columns > maxColumns && !tagged[i+1] {
			add(ruleColumns, f.fset.File(f.tree.Pos()).LineStart(i+1), strings.TrimSpace(line))
		}
	}
	for _, group := range f.tree.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		if sentence := headlessSubject.FindString(text); sentence != "" {
			add(ruleSubject, group.Pos(), text)
		}
		plain(group.Pos(), text)
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			docOf(n.Doc, n.Name, add)
			if name := n.Name.Name; f.test && n.Recv == nil && strings.HasPrefix(name, "Test") &&
				(len(name) > maxTestName || storyName.MatchString(name)) {
				add(ruleTests, n.Pos(), name)
			}
		case *ast.TypeSpec:
			docOf(n.Doc, n.Name, add)
		case *ast.GenDecl:
			if spec, ok := soleType(n); ok {
				docOf(n.Doc, spec.Name, add)
			}
		case *ast.Ident:
			if better, is := instead[n.Name]; is {
				add(rulePlain, n.Pos(), n.Name+": "+better)
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				plain(n.Pos(), n.Value)
			}
		case *ast.CompositeLit:
			if crowded(f.fset, n) {
				add(ruleLiterals, n.Pos(), "")
			}
		}
		return true
	})
	return found
}

// taggedLines returns the lines that end with a struct tag, which can't be broken.
func taggedLines(f file) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil && field.Comment == nil {
			lines[f.fset.Position(field.Tag.End()).Line] = true
		}
		return true
	})
	return lines
}

func soleType(d *ast.GenDecl) (*ast.TypeSpec, bool) {
	if len(d.Specs) != 1 {
		return nil, false
	}
	spec, ok := d.Specs[0].(*ast.TypeSpec)
	return spec, ok
}

// docOf checks the doc comment of a declaration: it begins with the identifier, and a verb that states.
func docOf(doc *ast.CommentGroup, name *ast.Ident, add func(rule string, pos token.Pos, text string)) {
	if doc == nil {
		return
	}
	text := doc.Text()
	switch {
	case text == "": // directives alone
	case !strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(text, "A "), "The "), name.Name):
		if ast.IsExported(name.Name) && !strings.HasPrefix(name.Name, "Test") {
			add(ruleDocs, doc.Pos(), text)
		}
	case narratingVerbs.MatchString(text):
		add(ruleStates, doc.Pos(), text)
	}
}

// crowded reports whether a literal with more than three keyed fields has two in one line.
func crowded(fset *token.FileSet, lit *ast.CompositeLit) bool {
	if len(lit.Elts) <= maxInline {
		return false
	}
	last := 0
	for _, element := range lit.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		if _, ok := pair.Key.(*ast.Ident); !ok { // of a map
			return false
		}
		line := fset.Position(pair.Pos()).Line
		if line == last {
			return true
		}
		last = line
	}
	return false
}

var updateWords = flag.Bool("update-words", false, "write testdata/words.txt as the source is")

// TestWordsOfSource counts the complaints of each package and rule. testdata/words.txt has the packages that are not
// clean yet and how many complaints each may have; a package or rule that it does not name may have none. Counts may
// only fall.
func TestWordsOfSource(t *testing.T) {
	if testing.Short() {
		t.Skip("make lint runs it")
	}
	t.Parallel()
	const list = "testdata/words.txt"
	allowed := wordsAllowed(t, list)
	counts, examples := map[string]int{}, map[string][]complaint{}
	for _, f := range sources(t) {
		if f.generated {
			continue
		}
		for _, c := range complaints(f, content(t, filepath.Join(root, f.path))) {
			key := strings.TrimPrefix(f.pkg, module+"/") + ": " + c.rule
			counts[key]++
			examples[key] = append(examples[key], c)
		}
	}
	if *updateWords {
		var lines strings.Builder
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&lines, "%d %s\n", counts[key], key)
		}
		must.OK(t, os.WriteFile(list, []byte(lines.String()), 0o600))
		return
	}
	total := 0
	for key, count := range counts {
		total += count
		if count <= allowed[key] {
			continue
		}
		t.Errorf("%s: %d places, %d may be", key, count, allowed[key])
		for _, c := range examples[key] {
			t.Logf("  %s: %.120s", strings.TrimPrefix(c.place, root+"/"), c.text)
		}
	}
	t.Logf("%d places are listed as exceptions", total)
}

// wordsAllowed reads the list of exceptions: a number, a package and a rule in each line.
func wordsAllowed(t *testing.T, name string) map[string]int {
	t.Helper()
	allowed := map[string]int{}
	for line := range strings.Lines(content(t, name)) {
		number, key, _ := strings.Cut(strings.TrimSpace(line), " ")
		count, err := strconv.Atoi(number)
		must.True(t, err == nil, "%s: %q: %v", name, line, err)
		allowed[key] = count
	}
	return allowed
}

// TestWordsOfPlantedSource shows each rule on a line that breaks it, and no complaint about a file that breaks none.
func TestWordsOfPlantedSource(t *testing.T) {
	t.Parallel()
	planted := map[string]string{
		ruleDocs:     "// It shows itself.\ntype Lane struct{}",
		ruleStates:   "// Lane gives what is slow.\ntype Lane struct{}",
		ruleSubject:  "// Lane is a queue. Nobody waits in it.\ntype Lane struct{}",
		ruleTests:    "func TestWhoIsSlow(t *testing.T) {}",
		ruleColumns:  "const text = \"" + strings.Repeat("x", maxColumns) + "\"",
		rulePlain:    "// Lane counts those who are t" + "old.\ntype Lane struct{}",
		ruleLiterals: "var lane = Lane{ID: 1, Size: 2,\n\tSlow: true,\n\tFull: true,\n}",
	}
	for rule, code := range planted {
		got := complaintsOf(t, code)
		assert.True(t, len(got) == 1 && got[0].rule == rule, "%s: %v for\n%s", rule, got, code)
	}
	clean := "type options struct {\n\tSize int `help:\"" + strings.Repeat("x", maxColumns) + "\"`\n}\n\n" +
		"// Lane is the queue of a destination. What waits in it has a lease.\ntype Lane struct{}\n\n" +
		"// TestLane_slow shows a slow lane.\nfunc TestLane_slow(t *testing.T) {}"
	if got := complaintsOf(t, strings.ReplaceAll(clean, "What waits", "A waiting delivery")); len(got) != 0 {
		t.Errorf("clean code: %v", got)
	}
}

func complaintsOf(t *testing.T, code string) []complaint {
	t.Helper()
	source := "package planted\n\n" + code + "\n"
	f := file{path: "planted_test.go", test: true, fset: token.NewFileSet()}
	f.tree = must.Get(parser.ParseFile(f.fset, f.path, source, parser.ParseComments))(t)
	return complaints(f, source)
}

var refusal = regexp.MustCompile(`refuse\(\w+, "([\w.]+)",\s*"([^"]+)`)

// The text of a refusal names its field.
func TestRefusalsNameTheirField(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob(filepath.Join(root, "command/*.go")))(t)
	found := 0
	for _, file := range files {
		source := must.Get(os.ReadFile(file))(t)
		for _, call := range refusal.FindAllStringSubmatch(string(source), -1) {
			found++
			if !strings.Contains(call[2], call[1]) {
				t.Errorf("%s: the refusal of %s says %q", file, call[1], call[2])
			}
		}
	}
	assert.True(t, found >= 30, "%d refusals found", found)
}
