package arch

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
)

var (
	// glossaryLine is a word with its meaning, and the words that are not declared for it.
	glossaryLine = regexp.MustCompile(`(?m)^//\t([a-z]+) {2,}[^\n]*?(?: \(not (.*)\))?$`)
	nameParts    = regexp.MustCompile(`[A-Z]?[a-z]+`)
)

// TestGlossaryOfDelivery: the packages below command/delivery declare each word of its glossary, and none of the words
// that the glossary has another one for.
func TestGlossaryOfDelivery(t *testing.T) {
	t.Parallel()
	const of, most = "command/delivery", 25
	declared := map[string]string{}
	for _, f := range sources(t) {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			var names []*ast.Ident
			switch n := n.(type) {
			case *ast.FuncDecl:
				names = []*ast.Ident{n.Name}
			case *ast.TypeSpec:
				names = []*ast.Ident{n.Name}
			case *ast.ValueSpec:
				names = n.Names
			case *ast.Field:
				names = n.Names
			}
			for _, name := range names {
				for _, part := range nameParts.FindAllString(name.Name, -1) {
					declared[strings.ToLower(strings.TrimSuffix(part, "s"))] = f.path + ": " + name.Name
				}
			}
			return !f.test && strings.HasPrefix(f.path, of+"/")
		})
	}
	_, glossary, _ := strings.Cut(content(t, root+"/"+of+"/doc.go"), "# Glossary")
	words := glossaryLine.FindAllStringSubmatch(glossary, -1)
	assert.True(t, len(words) != 0 && len(words) <= most,
		"the glossary of %s has %d words, want %d at most", of, len(words), most)
	for _, word := range words {
		if declared[strings.TrimSuffix(word[1], "s")] == "" {
			t.Errorf("%q is in the glossary, and nothing is called so", word[1])
		}
		for _, synonym := range strings.Fields(word[2]) {
			if place := declared[synonym]; place != "" {
				t.Errorf("%s: the glossary says %s, not %s", place, word[1], synonym)
			}
		}
	}
}
