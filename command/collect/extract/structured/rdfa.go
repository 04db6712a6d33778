package structured

import (
	"cmp"
	"maps"
	"strings"

	"golang.org/x/net/html"

	"carillon/command/collect"
)

// readRDFa adds the items of the page's RDFa: vocab, prefix, typeof, property, resource, about, content and datetime,
// which are RDFa Lite and the additions that pages with events use.
func readRDFa(g *graph) {
	if !g.hasRDFa {
		return
	}
	r := &rdfaReader{graph: g}
	r.children(g.page.Root, rdfaScope{prefixes: map[string]string{}})
}

type rdfaReader struct{ graph *graph }

// rdfaScope has the declarations for the inside of an element.
type rdfaScope struct {
	vocab    string
	prefixes map[string]string // immutable
	subject  *item
}

// maxPrefixes limits the prefixes that are declared at one place.
const maxPrefixes = 50

func (r *rdfaReader) children(n *html.Node, s rdfaScope) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode {
			r.element(c, s)
		}
	}
}

func (r *rdfaReader) element(n *html.Node, s rdfaScope) {
	if !r.graph.budget.Work(5) {
		return
	}
	s = r.scope(n, s)
	kinds, props := terms(n, "typeof"), r.properties(n, s)
	about := cmp.Or(attr(n, "about"), attr(n, "resource"))
	if len(kinds) == 0 && len(props) == 0 {
		if about != "" {
			s.subject = r.item(n, nil, "", about)
		}
		r.children(n, s)
		return
	}
	holder := s.subject
	if attr(n, "about") != "" && len(props) > 0 {
		holder = r.item(n, nil, "", attr(n, "about"))
	}
	var thing *item
	if len(kinds) > 0 {
		within := ""
		id := about
		if len(props) > 0 {
			within, id = props[0], cmp.Or(attr(n, "resource"), attr(n, "href"), attr(n, "src"))
		} else if id == "" {
			id = cmp.Or(attr(n, "href"), attr(n, "src"))
		}
		thing = r.item(n, holder, within, id)
		for _, kind := range kinds {
			if r.isSchema(kind, s) {
				thing.types = appendNew(thing.types, localName(kind))
			}
		}
		s.subject = thing
	}
	if holder != nil {
		for _, prop := range props {
			r.set(holder, prop, n, thing)
		}
	}
	r.children(n, s)
	if thing != nil {
		r.graph.settle(thing)
	}
}

// set adds the value of an element.
func (r *rdfaReader) set(it *item, prop string, n *html.Node, thing *item) {
	v := value{item: thing, node: n}
	if thing == nil {
		v.text = attr(n, "resource")
		if hasAttr(n, "content") || v.text == "" {
			v.text = r.graph.elementText(n, prop)
		}
		v.lang = language(n, r.graph.document)
	}
	if thing != nil || strings.TrimSpace(v.text) != "" {
		it.set(prop, v)
	}
}

// scope adds the declarations of an element.
func (r *rdfaReader) scope(n *html.Node, s rdfaScope) rdfaScope {
	if hasAttr(n, "vocab") {
		s.vocab = strings.TrimSpace(attr(n, "vocab"))
	}
	words := strings.Fields(cut(attr(n, "prefix"), 4<<10))
	var declared map[string]string
	for i := 0; i+1 < len(words); i += 2 {
		if declared == nil {
			declared = maps.Clone(s.prefixes)
		}
		if name, ok := strings.CutSuffix(words[i], ":"); ok && len(declared) < maxPrefixes {
			declared[name] = words[i+1]
		}
	}
	if declared != nil && r.graph.budget.Work(len(declared)) {
		s.prefixes = declared
	}
	return s
}

// properties returns the local names of the schema.org terms of an element.
func (r *rdfaReader) properties(n *html.Node, s rdfaScope) []string {
	var found []string
	for _, term := range terms(n, "property") {
		if r.isSchema(term, s) {
			found = append(found, currentTerm(term))
		}
	}
	return found
}

// isSchema reports whether a term is of schema.org's vocabulary or its predecessor's, which need no declaration.
func (r *rdfaReader) isSchema(term string, s rdfaScope) bool {
	prefix, _, hasPrefix := strings.Cut(term, ":")
	switch {
	case !hasPrefix:
		return isVocabulary(s.vocab)
	case s.prefixes[prefix] != "":
		return isVocabulary(s.prefixes[prefix])
	}
	return prefix == "schema" || prefix == "v" || strings.Contains(term, "//schema.org/") ||
		strings.Contains(term, "//www.schema.org/")
}

// isVocabulary reports whether a vocabulary is schema.org's, or the one that it came from.
func isVocabulary(address string) bool {
	return strings.Contains(address, "schema.org") || strings.Contains(address, "data-vocabulary.org")
}

// item returns an item, maybe one that the page describes at several places.
func (r *rdfaReader) item(n *html.Node, around *item, within, id string) *item {
	id = strings.TrimSpace(strings.Trim(id, "[]"))
	if id = r.graph.absolute(id); id != "" {
		if have := r.graph.byID[id]; have != nil && have.syntax == collect.RDFa && len(terms(n, "typeof")) == 0 {
			return have
		}
	}
	it := r.graph.add("", around, within)
	it.syntax, it.node, it.id = collect.RDFa, n, id
	if id != "" && r.graph.byID[id] == nil {
		r.graph.byID[id] = it
	}
	return it
}
