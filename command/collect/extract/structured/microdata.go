package structured

import (
	"cmp"
	"strings"

	"golang.org/x/net/html"

	"carillon/command/collect"
)

// readMicrodata adds the items of the page's Microdata.
func readMicrodata(g *graph) {
	r := &microdataReader{graph: g, items: map[*html.Node]*item{}}
	for _, n := range g.scopes {
		if g.budget.Err() != nil {
			return
		}
		r.item(n, nil, "")
	}
}

type microdataReader struct {
	graph *graph
	// items are those that were read, or are being read, by element: itemref may lead to one from many places, and from
	// within itself.
	items map[*html.Node]*item
}

// maxTerms limits the types, properties or references in one attribute.
const maxTerms = 20

// terms returns the words of an attribute.
func terms(n *html.Node, name string) []string {
	words := strings.Fields(cut(attr(n, name), 4<<10))
	return words[:min(len(words), maxTerms)]
}

func (r *microdataReader) item(n *html.Node, around *item, within string) *item {
	if have := r.items[n]; have != nil {
		return have
	}
	it := r.graph.add("", around, within)
	it.syntax, it.node = collect.Microdata, n
	r.items[n] = it
	for _, t := range terms(n, "itemtype") {
		it.types = appendNew(it.types, localName(t))
	}
	it.id = r.graph.absolute(strings.TrimSpace(attr(n, "itemid")))
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		r.properties(c, it)
	}
	for _, id := range terms(n, "itemref") {
		if referred := r.graph.element(id); referred != nil && referred != n {
			r.properties(referred, it)
		}
	}
	r.graph.settle(it)
	return it
}

// properties adds the properties of an item in an element and its descendants.
func (r *microdataReader) properties(n *html.Node, it *item) {
	if n.Type != html.ElementNode || !r.graph.budget.Work(1) {
		return
	}
	props, scope := terms(n, "itemprop"), hasAttr(n, "itemscope")
	switch {
	case scope && len(props) == 0:
		return // a separate item
	case scope:
		inner := r.item(n, it, currentTerm(props[0]))
		for _, prop := range props {
			it.set(currentTerm(prop), value{item: inner, node: n})
		}
		return
	}
	for _, prop := range props {
		prop = currentTerm(prop)
		if text := r.graph.elementText(n, prop); strings.TrimSpace(text) != "" {
			it.set(prop, value{text: text, lang: language(n, r.graph.document), node: n})
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		r.properties(c, it)
	}
}

// formerTerms are those of data-vocabulary.org, from which schema.org came, with their successors.
var formerTerms = map[string]string{
	"street-address": "streetAddress", "locality": "addressLocality", "region": "addressRegion",
	"postal-code": "postalCode", "country-name": "addressCountry", "photo": "image", "tickets": "offers",
}

// currentTerm returns the local name of a term of schema.org, or of one that came before it.
func currentTerm(prop string) string {
	prop = localName(prop)
	return cmp.Or(formerTerms[prop], prop)
}

// language returns the language of an element if it states another one than the page's.
func language(n *html.Node, d *document) string {
	if lang := strings.ToLower(attr(n, "lang")); lang != d.language {
		return lang
	}
	return ""
}

// element returns an element by its id. The first call indexes the page.
func (d *document) element(id string) *html.Node {
	if d.elements == nil {
		d.elements = map[string]*html.Node{}
		for n := range d.page.Root.Descendants() {
			if !d.budget.Work(1) {
				break
			}
			if id := attr(n, "id"); n.Type == html.ElementNode && id != "" && d.elements[id] == nil && d.budget.Memory(64) {
				d.elements[id] = n
			}
		}
	}
	return d.elements[id]
}
