package structured

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/markup"
)

// item is a typed thing of a page, in whichever syntax it was written. Types and property names are local names:
// "Event", "startDate".
type item struct {
	types []string
	// id is absolute, or "" or a blank node's.
	id string
	// sharesID says that other items bear the same id, so that it identifies none of them.
	sharesID bool
	props    map[string][]value
	// around is the item that this one was first found in, as the value of the property within.
	around *item
	within string

	// repeats is the item that this one tells of again.
	repeats *item

	graph  *graph
	syntax collect.Syntax
	number int        // among the items of the page, from 1
	block  int        // of JSON-LD, the script among the page's
	node   *html.Node // of the other syntaxes
}

// value is text or an item, never both.
type value struct {
	text string
	lang string
	item *item
	node *html.Node // where a text stands, if not in a script
}

// graph holds the items of a page. Items of one id are one item.
type graph struct {
	document *document
	budget   *budget.Budget
	items    []*item // in order of appearance
	byID     map[string]*item
}

func newGraph(d *document, b *budget.Budget) *graph {
	return &graph{document: d, budget: b, byID: map[string]*item{}}
}

// itemBytes and valueBytes are what an item and a value take in memory.
const itemBytes, valueBytes = 400, 80

// maxItems caps the items of a page.
const maxItems = 50_000

// add makes an item, or gives the one that has the id already.
func (g *graph) add(id string, around *item, within string) *item {
	if have := g.byID[id]; id != "" && have != nil {
		return have
	}
	it := &item{
		id:     id,
		props:  map[string][]value{},
		around: around,
		within: within,
		graph:  g,
		number: len(g.items) + 1,
	}
	if len(g.items) < maxItems && g.budget.Memory(itemBytes) {
		g.items = append(g.items, it)
	}
	if id != "" {
		g.byID[id] = it
	}
	return it
}

// absolute resolves an id against the page; blank nodes stay as they are.
func (g *graph) absolute(id string) string {
	if id == "" || strings.HasPrefix(id, "_:") {
		return id
	}
	u, err := url.Parse(id)
	if err != nil {
		return id
	}
	return g.document.base.ResolveReference(u).String()
}

// target is the item that a value is or refers to by its id, nil for mere text.
func (g *graph) target(v value) *item {
	if v.item != nil {
		return v.item
	}
	if !strings.Contains(v.text, "/") && !strings.Contains(v.text, "#") && !strings.Contains(v.text, ":") {
		return nil
	}
	return g.byID[g.absolute(strings.TrimSpace(v.text))]
}

// things gives the items that a property has.
func (g *graph) things(it *item, prop string) []*item {
	var found []*item
	for _, v := range it.values(prop) {
		if t := g.target(v); t != nil {
			found = append(found, t)
		}
	}
	return found
}

// values gives the values of a property. Things can be shared by all events of a page, so it is here that reading them
// is paid for.
func (it *item) values(prop string) []value {
	values := it.props[prop]
	if !it.graph.budget.Work(1 + len(values)) {
		return nil
	}
	return values
}

// numbers are the properties of which 0 says something.
var numbers = map[string]bool{
	"latitude": true, "longitude": true, "remainingAttendeeCapacity": true, "inventoryLevel": true,
	"maximumPhysicalAttendeeCapacity": true, "maximumVirtualAttendeeCapacity": true, "value": true,
	"opens": true, "closes": true, "startTime": true, "endTime": true, "dayOfWeek": true, "byDay": true,
}

// isAbsent reports whether a value of a property is what templates write for none: nothing, false or a lone 0.
func (v value) isAbsent(prop string) bool {
	n := len(v.text)
	if v.item != nil || n > maxAbsent || n > len("false") && v.text[0] > ' ' && v.text[n-1] > ' ' {
		return false
	}
	switch strings.TrimSpace(v.text) {
	case "", "false":
		return true
	case "0":
		return !numbers[prop]
	}
	return false
}

// maxAbsent is how many bytes what stands for nothing has at most, spaces included.
const maxAbsent = 64

// set adds a value to a property.
func (it *item) set(prop string, v value) {
	if v.isAbsent(prop) {
		return
	}
	if it.graph.budget.Memory(valueBytes) {
		it.props[prop] = append(it.props[prop], v)
	}
}

// raw gives the texts of a property as they are written. An item in the place of a text is taken by its name or value.
func (it *item) raw(prop string) []string {
	var found []string
	for _, v := range it.values(prop) {
		if text := v.words(); text != "" {
			found = append(found, text)
		}
	}
	return found
}

// words is the value as text.
func (v value) words() string {
	if v.item != nil {
		return strings.TrimSpace(v.item.naming())
	}
	return strings.TrimSpace(v.text)
}

// naming is what of an item serves as a text.
func (it *item) naming() string {
	for _, prop := range []string{"name", "value", "text", "url"} {
		for _, v := range it.values(prop) {
			if v.item == nil && v.text != "" {
				return v.text
			}
		}
	}
	return ""
}

// inLanguage is the one text of a property to show: one in no language, else in the page's, else the first.
func (it *item) inLanguage(prop, language string) string {
	best, rank := "", 3
	for _, v := range it.values(prop) {
		text := v.text
		if v.item != nil {
			text = v.item.naming()
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		r := 2
		switch {
		case v.lang == "":
			r = 0
		case language != "" && strings.HasPrefix(language, strings.ToLower(v.lang)):
			r = 1
		}
		if r < rank {
			best, rank = text, r
		}
	}
	return best
}

// maxName is how much is read of what should be a name or a line, in bytes.
const maxName = 32 << 10

// plain is the text of a property as plain text, for what is no more than a few lines.
func (g *graph) plain(it *item, prop string) string {
	return g.line(it.inLanguage(prop, g.document.language))
}

func (g *graph) line(text string) string {
	if text = cut(text, maxName); !g.budget.Work(1 + len(text)/4) {
		return ""
	}
	return markup.Plain(text)
}

// cut bounds a text, in bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// one is the first text of a property as it is written.
func (it *item) one(prop string) string {
	for _, v := range it.values(prop) {
		if text := v.words(); text != "" {
			return text
		}
	}
	return ""
}

// is says that the item has one of the types.
func (it *item) is(types ...string) bool {
	for _, have := range it.types {
		for _, t := range types {
			if strings.EqualFold(have, t) {
				return true
			}
		}
	}
	return false
}

// eventTypes are the subtypes of Event whose names don't end in it.
var eventTypes = map[string]bool{"festival": true, "hackathon": true, "courseinstance": true, "eventseries": true}

// noEvents are called events and are none that anyone attends.
var noEvents = map[string]bool{"deliveryevent": true, "userinteraction": true, "instantaneousevent": true}

// isEvent: a subtype of Event by its name, since new ones come up.
func (it *item) isEvent() bool {
	event := false
	for _, t := range it.types {
		t = strings.ToLower(t)
		if noEvents[t] {
			return false
		}
		event = event || eventTypes[t] || strings.HasSuffix(t, "event")
	}
	return event
}

// events gives the events, wherever on the page they are.
func (g *graph) events() []*item {
	var found []*item
	for _, it := range g.items {
		if it.repeats == nil && it.isEvent() {
			found = append(found, it)
		}
	}
	return found
}

// localName cuts a term of any vocabulary down to its name.
func localName(term string) string {
	term = strings.TrimRight(strings.TrimSpace(term), "/#")
	return term[strings.LastIndexAny(term, "/#:")+1:]
}
