package structured

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// classicRoots are the classes of classic microformats, with their current counterparts.
var classicRoots = map[string]string{"vevent": "h-event", "vcard": "h-card", "adr": "h-adr", "geo": "h-geo"}

// classicProperties are the classes of their properties, by microformat.
var classicProperties = map[string]map[string]string{
	"vevent": {
		"summary": "p-name", "dtstart": "dt-start", "dtend": "dt-end", "duration": "dt-duration",
		"description": "e-description", "location": "p-location", "url": "u-url", "geo": "p-geo", "uid": "u-uid",
		"status": "p-status", "organizer": "p-organizer", "category": "p-category", "attach": "u-photo", "photo": "u-photo",
		"attendee": "p-attendee", "contact": "p-organizer",
		"name": "p-name",
	},
	"vcard": {
		"fn": "p-name", "org": "p-org", "url": "u-url", "email": "u-email", "tel": "p-tel", "adr": "p-adr", "geo": "p-geo",
		"photo": "u-photo", "label": "p-label",
	},
	"adr": {
		"extended-address": "p-extended-address", "street-address": "p-street-address", "locality": "p-locality",
		"region": "p-region", "postal-code": "p-postal-code", "country-name": "p-country-name", "geo": "p-geo",
	},
	"geo": {"latitude": "p-latitude", "longitude": "p-longitude"},
}

// modernise sets an id of each microformat of the page for lookups, and rewrites classic ones to current classes,
// together with included elements. It rewrites events and their contents only.
func modernise(g *graph) map[string]root {
	m := &moderniser{
		graph:    g,
		roots:    map[string]root{},
		included: map[*html.Node]bool{},
	}
	m.walk(g.page.Root, "", false)
	return m.roots
}

type moderniser struct {
	graph    *graph
	roots    map[string]root
	included map[*html.Node]bool
}

// walk visits the elements of a classic microformat, or of none for "". Included elements include nothing themselves,
// because two parts could include each other.
func (m *moderniser) walk(n *html.Node, within string, included bool) {
	included = included || m.included[n]
	if !m.graph.budget.Work(2) {
		return
	}
	if n.Type == html.ElementNode {
		within = m.element(n, within, included)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		m.walk(c, within, included)
	}
}

func (m *moderniser) element(n *html.Node, within string, included bool) string {
	var modern []string
	if n.DataAtom == atom.Img {
		setAttr(n, "src", imageRef(n)) // the parser knows no other attribute
	}
	classic, isRoot := "", false
	kept := terms(n, "class")
	for _, class := range kept {
		isRoot = isRoot || strings.HasPrefix(class, "h-")
		if kind := classicRoots[class]; kind != "" && (class == "vevent" || within != "") {
			classic = cmp.Or(classic, class)
			modern = append(modern, kind)
		}
		if property := classicProperties[within][class]; property != "" {
			modern = append(modern, property)
		}
	}
	if isRoot {
		classic, modern = "", nil // elements with both classes mean the current one
		within = ""
	}
	if classic != "" || isRoot {
		id := fmt.Sprintf("microformat-%d", len(m.roots)+1)
		m.roots[id] = root{node: n, id: attr(n, "id"), classic: classic != ""}
		setAttr(n, "id", id)
	}
	if classic != "" {
		within = classic
	}
	if within != "" && !included {
		m.include(n)
	}
	if all := slices.DeleteFunc(append(kept, modern...), func(c string) bool { return c == "include" }); len(kept) > 0 {
		setAttr(n, "class", strings.Join(all, " "))
	}
	// The parser would include elements again in other classic microformats, and endlessly if two include each other.
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "itemref" || a.Key == "headers" })
	return within
}

// include copies referenced elements into an element: by itemref, by the headers of a cell, or by the include pattern.
func (m *moderniser) include(n *html.Node) {
	refs := terms(n, "itemref")
	switch {
	case n.DataAtom == atom.Td:
		refs = append(refs, terms(n, "headers")...)
	case slices.Contains(strings.Fields(cut(attr(n, "class"), 4<<10)), "include"):
		if id, ok := strings.CutPrefix(cmp.Or(attr(n, "href"), attr(n, "data")), "#"); ok {
			refs = append(refs, id)
		}
	}
	for _, id := range refs {
		from := m.graph.element(id)
		if from == nil || from.DataAtom == atom.Body || from.DataAtom == atom.Html || holds(from, n) || holds(n, from) {
			continue
		}
		if copied := m.copy(from); copied != nil {
			n.AppendChild(copied)
			m.included[copied] = true
		}
	}
}

// copy copies an element; nil if the budget does not permit it.
func (m *moderniser) copy(n *html.Node) *html.Node {
	if !m.graph.budget.Work(5) || !m.graph.budget.Memory(nodeBytes+attributeBytes*len(n.Attr)) {
		return nil
	}
	c := &html.Node{
		Type:      n.Type,
		DataAtom:  n.DataAtom,
		Data:      n.Data,
		Namespace: n.Namespace,
		Attr:      append([]html.Attribute(nil), n.Attr...),
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		copied := m.copy(child)
		if copied == nil {
			return nil
		}
		c.AppendChild(copied)
	}
	return c
}

// holds reports whether an element is another or contains it.
func holds(outer, inner *html.Node) bool {
	for at := inner; at != nil; at = at.Parent {
		if at == outer {
			return true
		}
	}
	return false
}

func setAttr(n *html.Node, name, val string) {
	for i := range n.Attr {
		if n.Attr[i].Key == name && n.Attr[i].Namespace == "" {
			n.Attr[i].Val = val
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: name, Val: val})
}
