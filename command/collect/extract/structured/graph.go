package structured

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"

	"carillon/command/collect"
	"carillon/command/collect/extract/markup"
)

// item is a typed thing of a page, in any syntax. Types and property names are local names: "Event", "startDate".
type item struct {
	types []string
	// id is absolute, the id of a blank node, or "".
	id string
	// sharesID marks an id that other items have too, so that it identifies none of them.
	sharesID bool
	props    map[string][]value
	// around is the item in which this one was found first, as the value of the property within.
	around *item
	within string

	// repeats is the item that this one repeats. Optional.
	repeats *item

	graph  *graph
	syntax collect.Syntax
	number int        // on the page, from 1
	block  int        // script of JSON-LD
	node   *html.Node // in the other syntaxes
}

// value is text or an item, never both.
type value struct {
	text string
	lang string
	item *item
	node *html.Node // position of a text outside of scripts
}

// graph has the items of a page, one for each id.
type graph struct {
	*document
	items []*item // in order of appearance
	byID  map[string]*item
}

// itemBytes and valueBytes are sizes in memory.
const itemBytes, valueBytes = 400, 80

// maxItems limits the items of a page.
const maxItems = 50_000

// add returns the item with the id, or a new one.
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

// absolute resolves an id against the page; those of blank nodes stay.
func (g *graph) absolute(id string) string {
	if id == "" || strings.HasPrefix(id, "_:") {
		return id
	}
	u, err := url.Parse(id)
	if err != nil {
		return id
	}
	return g.base.ResolveReference(u).String()
}

// target returns the item that a value is or refers to by its id, nil for plain text.
func (g *graph) target(v value) *item {
	if v.item != nil {
		return v.item
	}
	if !strings.Contains(v.text, "/") && !strings.Contains(v.text, "#") && !strings.Contains(v.text, ":") {
		return nil
	}
	return g.byID[g.absolute(strings.TrimSpace(v.text))]
}

// things returns the items of a property.
func (g *graph) things(it *item, prop string) []*item {
	var found []*item
	for _, v := range it.values(prop) {
		if t := g.target(v); t != nil {
			found = append(found, t)
		}
	}
	return found
}

// values returns the values of a property. All events of a page may share a thing, so the cost of reading it is
// counted here.
func (it *item) values(prop string) []value {
	values := it.props[prop]
	if !it.graph.budget.Work(1 + len(values)) {
		return nil
	}
	return values
}

// numbers are the properties for which 0 is a value.
var numbers = map[string]bool{
	"latitude": true, "longitude": true, "remainingAttendeeCapacity": true, "inventoryLevel": true,
	"maximumPhysicalAttendeeCapacity": true, "maximumVirtualAttendeeCapacity": true, "value": true,
	"opens": true, "closes": true, "startTime": true, "endTime": true, "dayOfWeek": true, "byDay": true,
}

// isAbsent reports whether a value of a property stands for none in templates: an empty text, false or a lone 0.
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

// maxAbsent is the maximum length of such a value, with spaces.
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

// raw returns the texts of a property unchanged. An item in place of a text counts by its name or value.
func (it *item) raw(prop string) []string {
	var found []string
	for _, v := range it.values(prop) {
		if text := v.words(); text != "" {
			found = append(found, text)
		}
	}
	return found
}

// words returns the value as text.
func (v value) words() string {
	if v.item != nil {
		return strings.TrimSpace(v.item.naming())
	}
	return strings.TrimSpace(v.text)
}

// naming returns the text in place of an item.
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

// inLanguage returns the text of a property to show: one without a language, else in the page's, else the first.
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

// maxName limits a name or a line, in bytes.
const maxName = 32 << 10

// plain returns a property of a few lines as plain text.
func (g *graph) plain(it *item, prop string) string {
	return g.line(it.inLanguage(prop, g.language))
}

func (g *graph) line(text string) string {
	if text = cut(text, maxName); !g.budget.Work(1 + len(text)/4) {
		return ""
	}
	return markup.Plain(text)
}

// cut limits a text, in bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}

// one returns the first text of a property unchanged.
func (it *item) one(prop string) string {
	for _, v := range it.values(prop) {
		if text := v.words(); text != "" {
			return text
		}
	}
	return ""
}

// is reports whether the item has one of the types.
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

// eventTypes are the subtypes of Event whose names don't end in "event".
var eventTypes = map[string]bool{"festival": true, "hackathon": true, "courseinstance": true, "eventseries": true}

// noEvents are types of events without an audience at a place and time: those of programs and of works.
var noEvents = map[string]bool{"deliveryevent": true, "userinteraction": true, "instantaneousevent": true,
	"broadcastevent": true, "publicationevent": true, "ondemandevent": true}

// isEvent reports whether the type is a subtype of Event by its name, because vocabularies grow.
func (it *item) isEvent() bool {
	event := false
	for _, t := range it.types {
		t = strings.ToLower(t)
		event = event || eventTypes[t] || strings.HasSuffix(t, "event") && !noEvents[t]
	}
	return event
}

// events returns the events anywhere on the page.
func (g *graph) events() []*item {
	var found []*item
	for _, it := range g.items {
		if it.repeats == nil && it.isEvent() {
			found = append(found, it)
		}
	}
	return found
}

// localName returns the local name of a term of any vocabulary.
func localName(term string) string {
	term = strings.TrimRight(strings.TrimSpace(term), "/#")
	return term[strings.LastIndexAny(term, "/#:")+1:]
}
