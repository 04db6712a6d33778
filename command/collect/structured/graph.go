package structured

import (
	"net/url"
	"strings"

	"carillon/command/collect/markup"
)

// item is a typed thing of a page, in whichever syntax it was written. Types
// and property names are local names: "Event", "startDate".
type item struct {
	types []string
	// id is absolute, or "" or a blank node's.
	id string
	// sharesID says that other items bear the same id, so that it identifies
	// none of them.
	sharesID bool
	props    map[string][]value
	// around is the item that this one was first found in, as the value of
	// the property within.
	around *item
	within string
}

// value is text or an item, never both.
type value struct {
	text string
	lang string
	item *item
}

// graph holds the items of a page. Items of one id are one item.
type graph struct {
	document *document
	items    []*item // in order of appearance
	byID     map[string]*item
}

func newGraph(d *document) *graph { return &graph{document: d, byID: map[string]*item{}} }

// maxItems caps the items of a page.
const maxItems = 50_000

// add makes an item, or gives the one that has the id already.
func (g *graph) add(id string, around *item, within string) *item {
	if have := g.byID[id]; id != "" && have != nil {
		return have
	}
	it := &item{id: id, props: map[string][]value{}, around: around, within: within}
	if len(g.items) < maxItems {
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
	for _, v := range it.props[prop] {
		if t := g.target(v); t != nil {
			found = append(found, t)
		}
	}
	return found
}

// raw gives the texts of a property as they are written. An item in the place
// of a text is taken by its name or value.
func (it *item) raw(prop string) []string {
	var found []string
	for _, v := range it.props[prop] {
		text := v.text
		if v.item != nil {
			text = v.item.naming()
		}
		if text = strings.TrimSpace(text); text != "" {
			found = append(found, text)
		}
	}
	return found
}

// naming is what of an item serves as a text.
func (it *item) naming() string {
	for _, prop := range []string{"name", "value", "text", "url"} {
		for _, v := range it.props[prop] {
			if v.item == nil && v.text != "" {
				return v.text
			}
		}
	}
	return ""
}

// inLanguage is the one text of a property to show: one in no language, else in
// the page's, else the first.
func (it *item) inLanguage(prop, language string) string {
	best, rank := "", 3
	for _, v := range it.props[prop] {
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

// plain is the text of a property as plain text.
func (g *graph) plain(it *item, prop string) string {
	return markup.Plain(it.inLanguage(prop, g.document.language))
}

// one is the first text of a property as it is written.
func (it *item) one(prop string) string {
	if all := it.raw(prop); len(all) > 0 {
		return all[0]
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
		if it.isEvent() {
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
