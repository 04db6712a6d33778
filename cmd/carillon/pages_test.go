package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

const root = "../.."

var (
	variableName = regexp.MustCompile(`CARILLON_[A-Z0-9_]*[A-Z0-9]`)
	commandWords = regexp.MustCompile("(?m)(?:^|[`(\"] ?|\\$ )(?:bin/)?carillon ([a-z][^`\"\n#]*)")
	testVariable = regexp.MustCompile(`^CARILLON_(TEST|TORTURE)_`)
)

func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&commandLine{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{
		"README.md",
		"Makefile",
		"docs/*.md",
		"docs/*/*.md",
		"deploy/*.yaml",
		"deploy/*.env",
		"deploy/*.service",
		"deploy/Dockerfile",
	} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.TrimPrefix(name, root+"/")] = string(text)
		}
	}
	return texts
}

// A page names no variable that the program does not know, and configure.md has each one of the server's.
func TestPagesAndSettingsAgree(t *testing.T) {
	t.Parallel()
	app := model(t)
	texts := pages(t)
	for name, text := range texts {
		for _, variable := range unknownVariables(app, variableName.FindAllString(text, -1)) {
			if !testVariable.MatchString(variable) {
				t.Errorf("%s names %s, which is no setting", name, variable)
			}
		}
	}
	for _, node := range app.Children {
		if node.Name != "serve" {
			continue
		}
		for _, flags := range node.AllFlags(true) {
			for _, flag := range flags {
				if len(flag.Envs) > 0 && !strings.Contains(texts["docs/operate/configure.md"], "`"+flag.Envs[0]+"`") {
					t.Errorf("docs/operate/configure.md lacks %s", flag.Envs[0])
				}
			}
		}
	}
}

// The commands on pages exist, with the flags that the pages use.
func TestPagesNameCommandsThatAreThere(t *testing.T) {
	t.Parallel()
	app := model(t)
	seen := 0
	for name, text := range pages(t) {
		text = strings.ReplaceAll(text, "\\\n", " ")
		for _, found := range commandWords.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(found[1])
			node := app.Node
			for len(words) > 0 {
				i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == words[0] })
				if i < 0 {
					break
				}
				node, words = node.Children[i], words[1:]
			}
			if node == app.Node {
				t.Errorf("%s: carillon %s: there is no such command", name, found[1])
				continue
			}
			seen++
			if node.DefaultCmd != nil {
				node = node.DefaultCmd
			}
			for _, word := range words {
				flag, ok := strings.CutPrefix(word, "--")
				flag, _, _ = strings.Cut(strings.TrimRight(flag, "`.,;:)"), "=")
				if ok && !hasFlag(node, flag) {
					t.Errorf("%s: carillon %s: there is no flag --%s", name, found[1], flag)
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands were found in the pages", seen)
	}
}

func hasFlag(node *kong.Node, name string) bool {
	return slices.ContainsFunc(node.AllFlags(false), func(flags []*kong.Flag) bool {
		return slices.ContainsFunc(flags,
			func(flag *kong.Flag) bool { return flag.Name == name || slices.Contains(flag.Aliases, name) })
	})
}
