package selectors_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"carillon/command/collect/budget"
	"carillon/command/collect/extract/selectors"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	root := must.Get(html.Parse(strings.NewReader(page)))(t)
	return root
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	root := parse(t, `<div id="a"><ul class="x y"><li>1</li><li class="z">2<b>3</b></li></ul><p>`+
		`<i data-t="a b, c">4</i></p></div><ul><li>5</li></ul>`)
	for text, want := range map[string]string{
		"li":                     "1 23 5",
		"#a li":                  "1 23",
		"#a > li":                "",
		"ul.x>li.z":              "23",
		"div ul.x.y > li b":      "3",
		"body li:nth-child(2)":   "23",
		"li:first-child":         "1 5",
		`i[data-t="a b, c"]`:     "4",
		"div p > [data-t^='a']":  "4",
		"ul:first-child > li b":  "3",
		"div > div":              "",
		" li ":                   "1 23 5",
		"":                       "invalid",
		"li, p":                  "invalid",
		"li + li":                "invalid",
		"li ~ li":                "invalid",
		"div:has(a)":             "invalid",
		"li:not(.z)":             "invalid",
		"li:contains(x)":         "invalid",
		"li:matches((a+)+$)":     "invalid",
		"p::before":              "invalid",
		"li[":                    "invalid",
		"li[a='\x00']":           "invalid",
		"> li":                   "invalid",
		"a b c d e f g h i":      "invalid",
		strings.Repeat("a", 201): "invalid",
	} {
		s, err := selectors.Compile(text)
		if err != nil {
			assert.True(t, want == "invalid" && errors.Is(err, selectors.ErrInvalid), "%q: %v", text, err)
			continue
		}
		var got []string
		for _, n := range s.All(nil, root, 10) {
			var b strings.Builder
			for c := range n.Descendants() {
				if c.Type == html.TextNode {
					b.WriteString(c.Data)
				}
			}
			got = append(got, b.String())
		}
		assert.Equal(t, strings.Join(got, " "), want, "%q finds", text)
	}
}

// The work grows with the page, not with the combinations of its elements; positions count siblings.
func TestSelectorsAreBounded(t *testing.T) {
	t.Parallel()
	deep := parse(t, strings.Repeat("<div>", 400)+strings.Repeat("<p>x</p>", 2000))
	wide := parse(t, strings.Repeat("<p>x</p>", 20_000))
	for name, c := range map[string]struct {
		root *html.Node
		text string
		ends bool
	}{
		"descendants": {deep, "div div div div div div div i", true},
		"positions":   {wide, "p:nth-last-child(7)", false},
	} {
		s := must.Get(selectors.Compile(c.text))(t)
		b := budget.New(t.Context())
		s.All(b, c.root, 10)
		if got := b.Err() == nil; got != c.ends {
			t.Errorf("%s: %v", name, fmt.Sprint(b.Err()))
		}
	}
}
