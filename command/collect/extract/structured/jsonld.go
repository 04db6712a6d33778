package structured

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"carillon/command/collect"
)

// readJSONLD adds the items of the page's JSON-LD. It doesn't process contexts as the standard does, which would mean
// fetching them: every term counts by its local name, and a local context only by its prefixes and aliases.
func readJSONLD(g *graph) {
	for _, block := range g.blocks {
		if strings.TrimSpace(block.text) == "" {
			continue
		}
		if !g.budget.Memory(jsonBytes(block.text)) || !g.budget.Work(len(block.text)/8) {
			return
		}
		values, clean, ok := decodeJSON(block.text)
		if !ok {
			g.notes.Add(collect.NoteBrokenMarkup, "a block of JSON-LD holds no object")
			continue
		}
		if !clean {
			g.notes.Add(collect.NoteBrokenMarkup, "a block of JSON-LD is not valid JSON and was read with forbearance")
		}
		for _, v := range values {
			(&ldReader{graph: g, block: block.number}).value(v, nil, "")
			if g.budget.Err() != nil {
				return
			}
		}
	}
}

// jsonBytes returns the maximum size of a decoded JSON text: each value has one of these characters.
func jsonBytes(text string) int {
	const perObject, perValue = 320, 64
	n := len(text)
	for i := range len(text) {
		switch text[i] {
		case '{':
			n += perObject
		case '[', ',', ':':
			n += perValue
		}
	}
	return n
}

// ldReader reads one block.
type ldReader struct {
	graph *graph
	block int
	// aliases are terms of local contexts: an alias of a keyword, or another name of a term. Keywords map to their
	// aliases as well.
	aliases  map[string]string
	keywords map[string][]string
	// redefined are those of ownAliases to which a local context gives another meaning.
	redefined []string
}

// ownAliases are those of schema.org's own context and of contexts derived from it.
var ownAliases = map[string]string{"type": "@type", "id": "@id"}

// maxAliases limits the aliases of one keyword. Real contexts have one.
const maxAliases = 8

// value returns the values of a property for a JSON value.
func (r *ldReader) value(v any, around *item, within string) []value {
	return r.append(nil, v, around, within)
}

// append appends values. Long lists get their room at once.
func (r *ldReader) append(to []value, v any, around *item, within string) []value {
	switch v := v.(type) {
	case []any:
		to = slices.Grow(to, len(v))
		for _, e := range v {
			to = r.append(to, e, around, within)
		}
		return to
	case map[string]any:
		return append(to, r.object(v, around, within)...)
	case string:
		return append(to, value{text: v})
	case json.Number:
		return append(to, value{text: v.String()})
	case bool:
		if v { // false means absent
			return append(to, value{text: "true"})
		}
	}
	return to
}

func (r *ldReader) object(o map[string]any, around *item, within string) []value {
	if !r.graph.budget.Work(10 + len(o)) {
		return nil
	}
	r.context(o["@context"])
	for _, keyword := range []string{"@list", "@set"} {
		if list, ok := r.keyword(o, keyword); ok {
			return r.value(list, around, within)
		}
	}
	if v, ok := r.keyword(o, "@value"); ok {
		found := r.value(v, around, within)
		for i := range found {
			found[i].lang = r.text(o, "@language")
		}
		return found
	}
	it := r.item(o, around, within)
	merged := len(it.props) > 0
	for _, key := range slices.Sorted(maps.Keys(o)) { // sorted, for a fixed order
		switch term := r.termIn(o, key); term {
		case "@type":
			for _, t := range r.value(o[key], nil, "") {
				it.types = appendNew(it.types, r.term(localName(t.text)))
			}
		case "@graph", "@included":
			r.value(o[key], nil, "")
		case "@reverse":
			r.reverse(o[key], it)
		default:
			if strings.HasPrefix(term, "@") {
				continue
			}
			if !r.property(it, term, o[key], merged) {
				return nil
			}
		}
	}
	return []value{{item: it}}
}

// property reads a property of an object. The cost is counted before the values are made, because a list may be most
// of the page.
func (r *ldReader) property(it *item, term string, v any, merged bool) bool {
	paid := 1
	if list, ok := v.([]any); ok {
		paid = len(list)
	}
	if !r.graph.budget.Memory(valueBytes * paid) {
		return false
	}
	values := slices.DeleteFunc(r.value(v, it, term), func(v value) bool { return v.isAbsent(term) })
	if !r.graph.budget.Memory(valueBytes * max(0, len(values)-paid)) { // lists in lists
		return false
	}
	if !merged && len(it.props[term]) == 0 {
		it.props[term] = values
		return true
	}
	for _, v := range values {
		if !merged || !slices.Contains(it.values(term), v) {
			it.props[term] = append(it.props[term], v)
		}
	}
	return true
}

// item returns the item of an object: the one with its id, or a new one.
func (r *ldReader) item(o map[string]any, around *item, within string) *item {
	id := r.text(o, "@id")
	if strings.HasPrefix(id, "_:") {
		id = fmt.Sprintf("_:%d-%s", r.block, id[2:]) // blank nodes belong to a block
	}
	id = r.graph.absolute(id)
	have := r.graph.byID[id]
	if id == "" || have == nil {
		return r.add(id, around, within)
	}
	for key, v := range o {
		term := r.termIn(o, key)
		text, ok := v.(string)
		if term != "name" && term != "startDate" || !ok {
			continue
		}
		// Templates give each event of a list the same id, which then identifies none of them.
		if old := have.one(term); old != "" && old != strings.TrimSpace(text) {
			have.sharesID = true
			it := r.add("", around, within)
			it.sharesID = true
			return it
		}
	}
	return have
}

func (r *ldReader) add(id string, around *item, within string) *item {
	it := r.graph.add(id, around, within)
	it.syntax, it.block = collect.JSONLD, r.block
	return it
}

// reverse adds the item to others, as a value of their property.
func (r *ldReader) reverse(v any, it *item) {
	o, _ := v.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(o)) {
		term := r.term(key)
		for _, other := range r.value(o[key], nil, "") {
			if t := r.graph.target(other); t != nil {
				t.set(term, value{item: it})
			}
		}
	}
}

func appendNew(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// context reads the aliases of a local context.
func (r *ldReader) context(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			r.context(e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			meaning := v[name]
			if o, ok := meaning.(map[string]any); ok {
				meaning = o["@id"]
			}
			text, ok := meaning.(string)
			if strings.HasPrefix(name, "@") {
				continue
			}
			delete(r.aliases, name)
			if ownAliases[name] != "" {
				r.redefined = appendNew(r.redefined, name)
			}
			if !ok {
				continue
			}
			alias := text
			if !strings.HasPrefix(text, "@") {
				alias = localName(text)
			}
			// A prefix, such as "s": "https://schema.org/", has no local name.
			if alias == "" || alias == "schema.org" || alias == name {
				continue
			}
			if r.aliases == nil {
				r.aliases, r.keywords = map[string]string{}, map[string][]string{}
			}
			r.aliases[name] = alias
			if strings.HasPrefix(alias, "@") && len(r.keywords[alias]) < maxAliases &&
				!slices.Contains(r.keywords[alias], name) {
				r.keywords[alias] = append(r.keywords[alias], name)
			}
		}
	}
}

// term returns the local name of a key, or a keyword.
func (r *ldReader) term(key string) string {
	if alias, ok := r.aliases[key]; ok {
		return alias
	}
	if strings.HasPrefix(key, "@") {
		return key
	}
	return localName(key)
}

// termIn returns the meaning of a key of an object. An alias of schema.org's own context counts if the object lacks
// the keyword, and an id only if it can identify something beyond its page: hand-written ids are mostly numbers.
func (r *ldReader) termIn(o map[string]any, key string) string {
	if key != "type" && key != "id" || slices.Contains(r.redefined, key) {
		return r.term(key)
	}
	keyword := ownAliases[key]
	if _, has := r.keywordOf(o, keyword); has || keyword == "@id" && !isReference(o[key]) {
		return key
	}
	return keyword
}

// isReference reports whether a value is a URL, a path, a fragment, a URN or a blank node.
func isReference(v any) bool {
	text, ok := v.(string)
	return ok && strings.ContainsAny(text, ":/#") && !strings.ContainsAny(text, " \n")
}

// keyword returns a keyword's value in an object, under its name or an alias.
func (r *ldReader) keyword(o map[string]any, keyword string) (any, bool) {
	if v, ok := r.keywordOf(o, keyword); ok {
		return v, true
	}
	if keyword != "@type" && keyword != "@id" {
		return nil, false
	}
	name := keyword[1:]
	v, ok := o[name]
	return v, ok && r.termIn(o, name) == keyword
}

// keywordOf returns it under its name or an alias of a local context.
func (r *ldReader) keywordOf(o map[string]any, keyword string) (any, bool) {
	if v, ok := o[keyword]; ok {
		return v, true
	}
	for _, alias := range r.keywords[keyword] {
		if v, ok := o[alias]; ok && r.aliases[alias] == keyword {
			return v, true
		}
	}
	return nil, false
}

func (r *ldReader) text(o map[string]any, keyword string) string {
	v, has := r.keyword(o, keyword)
	if text, isText := v.(string); has && isText {
		return strings.TrimSpace(text)
	}
	return ""
}
