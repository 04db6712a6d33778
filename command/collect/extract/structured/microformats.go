package structured

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"willnorris.com/go/microformats"

	"carillon/command/collect"
)

// readMicroformats adds the events of the page's microformats, with the terms of schema.org. Classic hCalendar is
// rewritten to current classes before, see classic.go, so that one parser reads both.
//
// It is the last reader, because the parser changes the page: addresses become absolute.
func readMicroformats(g *graph) {
	if !g.hasMicroformats {
		return
	}
	roots := modernise(g)
	if !affordable(g) {
		return
	}
	r := &mfReader{
		graph: g,
		roots: roots,
		items: map[string]*item{},
	}
	parsed := microformats.ParseNode(g.page.Root, g.base)
	for _, at := range roots {
		setAttr(at.node, "id", at.id)
	}
	for _, found := range parsed.Items {
		r.walk(found)
	}
}

// affordable subtracts the parser's work from the budget: it takes the text of each property separately, so that
// nested ones are read repeatedly.
func affordable(g *graph) bool {
	sizes := map[*html.Node]int{}
	var size func(n *html.Node) int
	size = func(n *html.Node) int {
		total := 1 + len(n.Data)/64
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			total += size(c)
		}
		if n.Type == html.ElementNode && hasAttr(n, "class") {
			sizes[n] = total
		}
		return total
	}
	if !g.budget.Work(size(g.page.Root)) {
		return false
	}
	for n, cost := range sizes {
		times := 0
		for _, class := range terms(n, "class") {
			if slices.ContainsFunc(readPrefixes, func(prefix string) bool { return strings.HasPrefix(class, prefix) }) {
				times++
			}
		}
		if times > 0 && (!g.budget.Work(2*times*cost) || !g.budget.Memory(32*times*cost)) {
			return false
		}
	}
	return true
}

// readPrefixes begin the classes that the parser reads.
var readPrefixes = []string{"h-", "p-", "u-", "dt-", "e-"}

// mfReader maps microformats to items.
type mfReader struct {
	graph *graph
	// roots are the elements of the microformats by the ids that they were given for the parser.
	roots map[string]root
	items map[string]*item // by the same ids
}

// root is the element of a microformat.
type root struct {
	node    *html.Node
	id      string // its original id
	classic bool
}

// walk visits the events, which may be inside of other things.
func (r *mfReader) walk(m *microformats.Microformat) {
	if !r.graph.budget.Work(10) {
		return
	}
	if slices.Contains(m.Type, "h-event") {
		r.event(m)
	}
	for _, child := range m.Children {
		r.walk(child)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Properties)) {
		for _, v := range m.Properties[name] {
			if inner, ok := v.(*microformats.Microformat); ok {
				r.walk(inner)
			}
		}
	}
}

// item returns the item of a microformat.
func (r *mfReader) item(m *microformats.Microformat, kind string, around *item, within string) *item {
	it := r.graph.add("", around, within)
	at := r.roots[m.ID]
	it.types, it.node, it.syntax = []string{kind}, at.node, collect.Microformats
	if at.classic {
		it.syntax = collect.HCalendar
	}
	return it
}

// eventTerms are the text properties of an h-event in order of precedence, by schema.org's terms.
var eventTerms = []struct{ term, names string }{
	{"name", "name"},
	{"disambiguatingDescription", "summary"},
	{"startDate", "start"},
	{"endDate", "end"},
	{"duration", "duration"},
	{"eventStatus", "status"},
	{"url", "url"},
	{"image", "featured photo"},
	{"datePublished", "published"},
	{"sameAs", "syndication"},
}

// event adds the item of an h-event.
func (r *mfReader) event(m *microformats.Microformat) {
	if r.items[m.ID] != nil {
		return // both property and child
	}
	it := r.item(m, "Event", nil, "")
	r.items[m.ID] = it
	for _, t := range eventTerms {
		for name := range strings.FieldsSeq(t.names) {
			for _, v := range m.Properties[name] {
				r.text(it, t.term, valueOf(v))
			}
		}
	}
	if len(it.props["name"]) == 0 {
		for _, v := range it.props["disambiguatingDescription"] {
			it.set("name", v)
		}
	}
	for _, name := range []string{"content", "description"} {
		for _, v := range m.Properties[name] {
			if text := cmp.Or(htmlOf(v), valueOf(v)); len(it.props["description"]) == 0 {
				r.text(it, "description", text)
			}
		}
	}
	for _, v := range m.Properties["uid"] {
		r.identifier(it, valueOf(v))
	}
	for _, v := range m.Properties["organizer"] {
		r.card(it, "organizer", v)
	}
	r.location(it, m)
	r.graph.settle(it)
}

func (r *mfReader) text(it *item, term, text string) {
	if text = strings.TrimSpace(text); text != "" {
		it.set(term, value{text: text, node: it.node})
	}
}

// identifier sets a uid: a URL is the event's id, other texts are identifiers of the publisher.
func (r *mfReader) identifier(it *item, uid string) {
	if u, err := url.Parse(uid); err == nil && u.IsAbs() && u.Host != "" && it.id == "" {
		it.id = uid
		return
	}
	if uid == "" {
		return
	}
	identifier := r.graph.add("", it, "identifier")
	r.text(identifier, "propertyID", "uid")
	r.text(identifier, "value", uid)
	it.set("identifier", value{item: identifier, node: it.node})
}

// valueOf returns a property as text.
func valueOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]string:
		return v["value"]
	case *microformats.Microformat:
		return v.Value
	}
	return ""
}

// htmlOf returns the markup of a property.
func htmlOf(v any) string {
	switch v := v.(type) {
	case map[string]string:
		return v["html"]
	case *microformats.Microformat:
		return v.HTML
	}
	return ""
}

// texts returns a property's values as text.
func texts(m *microformats.Microformat, name string) []string {
	var found []string
	for _, v := range m.Properties[name] {
		if text := strings.TrimSpace(valueOf(v)); text != "" {
			found = append(found, text)
		}
	}
	return found
}

// card adds a person or an organization.
func (r *mfReader) card(it *item, term string, v any) {
	m, ok := v.(*microformats.Microformat)
	if !ok {
		r.text(it, term, valueOf(v))
		return
	}
	card := r.item(m, "Organization", it, term)
	for _, p := range []struct{ term, name string }{{"name", "name"}, {"url", "url"}, {"email", "email"},
		{"telephone", "tel"}} {
		for _, text := range texts(m, p.name) {
			r.text(card, p.term, text)
		}
	}
	if len(card.props["name"]) == 0 {
		r.text(card, "name", cmp.Or(append(texts(m, "org"), m.Value)...))
	}
	it.set(term, value{item: card, node: card.node})
}

// addressTerms are the parts of an h-adr by schema.org's terms.
var addressTerms = []struct{ term, name string }{
	{"streetAddress", "extended-address"}, {"streetAddress", "street-address"}, {"addressLocality", "locality"},
	{"addressRegion", "region"}, {"postalCode", "postal-code"}, {"addressCountry", "country-name"},
}

// location adds the place of an event: text, or a card, an address or coordinates, within location or beside it.
func (r *mfReader) location(it *item, m *microformats.Microformat) {
	for _, v := range m.Properties["location"] {
		inner, ok := v.(*microformats.Microformat)
		if !ok {
			r.text(it, "location", valueOf(v))
			continue
		}
		it.set("location", value{item: r.place(it, inner), node: r.roots[inner.ID].node})
	}
	beside := r.graph.add("", it, "location")
	beside.types, beside.syntax, beside.node = []string{"Place"}, it.syntax, it.node
	r.address(beside, m)
	r.coordinates(beside, m)
	switch located := it.props["location"]; {
	case len(beside.props) == 0:
	case len(located) == 0:
		it.set("location", value{item: beside, node: it.node})
	case located[0].item != nil:
		for prop, values := range beside.props {
			if len(located[0].item.props[prop]) == 0 {
				located[0].item.props[prop] = values
			}
		}
	default:
		// A name with coordinates beside it.
		beside.props["name"] = located
		it.props["location"] = []value{{item: beside, node: it.node}}
	}
}

// place returns an h-card, h-adr or h-geo as a place.
func (r *mfReader) place(it *item, m *microformats.Microformat) *item {
	place := r.item(m, "Place", it, "location")
	if slices.Contains(m.Type, "h-card") {
		for _, name := range append(texts(m, "name"), texts(m, "org")...) {
			if len(place.props["name"]) == 0 {
				r.text(place, "name", name)
			}
		}
		for _, text := range texts(m, "url") {
			r.text(place, "url", text)
		}
	}
	r.address(place, m)
	r.coordinates(place, m)
	if len(place.props) == 0 {
		r.text(place, "name", m.Value)
	}
	return place
}

// address adds the parts of an address of a microformat or its adr.
func (r *mfReader) address(place *item, m *microformats.Microformat) {
	holders := []*microformats.Microformat{m}
	for _, v := range m.Properties["adr"] {
		if inner, ok := v.(*microformats.Microformat); ok {
			holders = append(holders, inner)
		} else {
			r.text(place, "address", valueOf(v))
		}
	}
	for _, holder := range holders {
		address := r.graph.add("", place, "address")
		address.types, address.syntax, address.node = []string{"PostalAddress"}, place.syntax, place.node
		for _, t := range addressTerms {
			for _, text := range texts(holder, t.name) {
				if have := address.props[t.term]; len(have) > 0 {
					have[0].text += ", " + text
				} else {
					r.text(address, t.term, text)
				}
			}
		}
		if len(address.props) > 0 {
			place.set("address", value{item: address, node: place.node})
			return
		}
		if slices.Contains(holder.Type, "h-adr") {
			r.text(place, "address", cmp.Or(append(texts(holder, "name"), holder.Value)...))
		}
	}
}

// coordinates adds those of a microformat or its geo: separate ones, or "latitude;longitude".
func (r *mfReader) coordinates(place *item, m *microformats.Microformat) {
	set := func(lat, lng string) {
		if len(place.props["latitude"]) == 0 && lat != "" && lng != "" {
			r.text(place, "latitude", lat)
			r.text(place, "longitude", lng)
		}
	}
	holders := []*microformats.Microformat{m}
	for _, name := range []string{"geo", "adr"} {
		for _, v := range m.Properties[name] {
			if inner, ok := v.(*microformats.Microformat); ok {
				holders = append(holders, inner)
			} else {
				set(pair(valueOf(v)))
			}
		}
	}
	for _, holder := range holders {
		set(cmp.Or(texts(holder, "latitude")...), cmp.Or(texts(holder, "longitude")...))
		if slices.Contains(holder.Type, "h-geo") {
			set(pair(cmp.Or(append(texts(holder, "name"), holder.Value)...)))
		}
		if holder != m {
			for _, v := range holder.Properties["geo"] {
				set(pair(valueOf(v)))
			}
		}
	}
}

// pair parses "37.77;-122.41" and "geo:37.77,-122.41".
func pair(text string) (lat, lng string) {
	text = strings.TrimPrefix(strings.TrimSpace(text), "geo:")
	text, _, _ = strings.Cut(text, "?")
	parts := strings.FieldsFunc(text, func(c rune) bool { return c == ';' || c == ',' })
	if len(parts) < 2 {
		return "", ""
	}
	for _, part := range parts[:2] {
		if _, err := strconv.ParseFloat(strings.TrimSpace(part), 64); err != nil {
			return "", ""
		}
	}
	return strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1])
}
