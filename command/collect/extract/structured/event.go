package structured

import (
	"cmp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// mapper maps event items to candidates.
type mapper struct {
	*graph
	// sole marks a page of one event.
	sole bool
	// dates counts the texts of the page that were read as dates.
	dates int
	// expanded caches the results of schedules, which are used twice.
	expanded map[scheduled]expansion
	// holders are the things with an event as one of titled, nil before the first lookup.
	holders map[*item]*item
	// sanitised caches descriptions, which events may share.
	sanitised map[string]string
}

// scheduled is a schedule with its event.
type scheduled struct{ event, schedule *item }

// expansion is the result of a schedule. clock is a start with the offset of its clock. Optional.
type expansion struct {
	ranges []timing.Range
	clock  *timing.Stamp
}

// candidateBytes is the size of a candidate in memory without texts.
const candidateBytes = 4 << 10

// candidates maps the events of a page. Sub-events that repeat an event become holdings of it.
func (m *mapper) candidates(events []*item) []*candidate.Candidate {
	parts := m.repetitions(events)
	m.sole = len(events) == 1
	found := make([]*candidate.Candidate, 0, len(events))
	for _, it := range events {
		if !m.budget.Work(100) || !m.budget.Memory(candidateBytes) {
			return nil
		}
		if !parts.isPart[it] {
			found = append(found, m.candidate(it, parts.of[it]))
		}
	}
	return found
}

// repetitionsOf has the sub-events that repeat an event, by that event.
type repetitionsOf struct {
	of     map[*item][]*item
	isPart map[*item]bool
}

// repetitions finds the sub-events that repeat an event: they have its title, or none.
func (m *mapper) repetitions(events []*item) repetitionsOf {
	r := repetitionsOf{of: map[*item][]*item{}, isPart: map[*item]bool{}}
	link := func(whole, part *item) {
		// An event can't be part of its part.
		if whole == part || r.isPart[part] || r.isPart[whole] || len(r.of[part]) > 0 || !part.isEvent() ||
			!m.repeats(whole, part) {
			return
		}
		r.isPart[part] = true
		r.of[whole] = append(r.of[whole], part)
	}
	for _, it := range events {
		for _, prop := range []string{"subEvent", "subEvents"} {
			for _, part := range m.things(it, prop) {
				link(it, part)
			}
		}
		for _, whole := range m.things(it, "superEvent") {
			if whole.is("EventSeries") {
				link(whole, it)
			}
		}
	}
	return r
}

func (m *mapper) repeats(whole, part *item) bool {
	if len(m.ranges(part)) == 0 && len(m.schedules(part)) == 0 {
		return false
	}
	name := identity.Title(m.plain(part, "name"))
	return name == "" && len(m.things(part, "location")) == 0 ||
		name == identity.Title(m.plain(whole, "name")) && name != ""
}

// candidate maps an event.
func (m *mapper) candidate(it *item, parts []*item) *candidate.Candidate {
	c := &candidate.Candidate{
		Syntax:     it.syntax,
		Exhibition: it.is("ExhibitionEvent"),
		Series:     it.is("EventSeries"),
		Daily:      it.is("ExhibitionEvent", "VisualArtsEvent", "Festival") || len(it.values("eventSchedule")) > 0,
	}
	c.Title = m.title(c, it)
	m.when(c, it, parts)
	m.hours(c, it)
	m.where(c, it)
	m.zone(c, it)
	m.local(c, it)
	m.descriptions(c, it)
	m.capacity(c, it)
	m.organizer(c, it)
	m.images(c, it)
	m.links(c, it)
	m.published(c, it)
	return c
}

// says records properties as origins of a field, with the position of their first values.
func (m *mapper) says(c *candidate.Candidate, field collect.Field, it *item, props ...string) {
	for _, prop := range props {
		for _, v := range it.values(prop) {
			text, at := v.text, v.node
			if v.item != nil {
				text, at = cmp.Or(v.item.naming(), v.item.id), v.item.node
			} else if strings.TrimSpace(text) == "" {
				continue
			}
			c.Says(field, it.path()+"."+prop, it.element(at), text)
			break
		}
	}
}

// descriptions sets the long and the short description of an event.
func (m *mapper) descriptions(c *candidate.Candidate, it *item) {
	if text := it.inLanguage("description", m.language); text != "" {
		c.Description = m.html(text)
		m.says(c, collect.FieldDescription, it, "description")
	}
	if c.ShortDescription = m.plain(it, "disambiguatingDescription"); c.ShortDescription != "" {
		m.says(c, collect.FieldShortDescription, it, "disambiguatingDescription")
	}
}

// maxDescription limits how much of a description is read, in bytes.
const maxDescription = 256 << 10

// html returns a sanitized description.
func (m *mapper) html(text string) string {
	text = cut(text, maxDescription)
	if have, ok := m.sanitised[text]; ok && m.budget.Work(1+len(text)/64) {
		return have
	}
	if !m.budget.Work(1+len(text)) || !m.budget.Memory(len(text)) {
		return ""
	}
	m.sanitised[text] = markup.HTML(text)
	return m.sanitised[text]
}

// titled are the properties of a thing whose events have its name.
var titled = map[string]bool{
	"event":             true,
	"events":            true,
	"subEvent":          true,
	"publication":       true,
	"hasCourseInstance": true,
}

// holder returns the thing that has an event as one of titled by its id. Optional.
func (m *mapper) holder(it *item) *item {
	if m.holders == nil {
		m.holders = map[*item]*item{}
		for _, other := range m.items {
			for prop := range titled { // and not of its own: all items of one id share those
				for _, part := range m.things(other, prop) {
					m.holders[part] = cmp.Or(m.holders[part], other)
				}
			}
		}
	}
	return m.holders[it]
}

// title returns the event's name, or else that of the thing that contains it.
func (m *mapper) title(c *candidate.Candidate, it *item) string {
	for _, prop := range []string{"name", "headline", "summary"} {
		if title := m.withoutSite(m.plain(it, prop)); title != "" {
			m.says(c, collect.FieldTitle, it, prop)
			return title
		}
	}
	var others []*item
	if it.around != nil && titled[it.within] {
		others = append(others, it.around)
	} else if holder := m.holder(it); holder != nil {
		others = append(others, holder)
	}
	for _, prop := range []string{"superEvent", "workPerformed", "workFeatured", "workPresented", "performer"} {
		others = append(others, m.things(it, prop)...)
	}
	for _, other := range others {
		if title := m.plain(other, "name"); title != "" {
			m.says(c, collect.FieldTitle, other, "name")
			return title
		}
	}
	if n := m.heading(it.node); n != nil {
		title := m.line(m.shown(n, maxHeading))
		c.Says(collect.FieldTitle, it.path(), elementPath(n), title)
		return title
	}
	return ""
}

// maxNear limits the elements in which a title is looked for.
const maxNear = 500

// heading returns the first heading of an element, outside of other items; nil if there is none.
func (g *graph) heading(n *html.Node) *html.Node {
	if n == nil {
		return nil
	}
	left := maxNear
	for c := range n.Descendants() {
		if left--; left == 0 || !g.budget.Work(1) {
			return nil
		}
		if headings[c.DataAtom] && scopeWithin(c, n) == n {
			return c
		}
	}
	return nil
}

var headings = map[atom.Atom]bool{atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true}

// scopeWithin returns the item around an element within another element, or that element. Optional.
func scopeWithin(c, n *html.Node) *html.Node {
	for c = c.Parent; c != n && c != nil && !hasAttr(c, "itemscope"); {
		c = c.Parent
	}
	return c
}

// links sets the URLs of an event, and those that identify it.
func (m *mapper) links(c *candidate.Candidate, it *item) {
	seen := map[string]bool{}
	for _, prop := range []string{"url", "mainEntityOfPage"} {
		for _, ref := range m.refs(it, prop) {
			if u := m.resolve(ref); u != nil && !seen[ref] {
				seen[ref] = true
				if len(c.Addresses) == 0 {
					m.says(c, collect.FieldURL, it, prop)
				}
				c.Addresses = append(c.Addresses, u)
			}
		}
	}
	for _, ref := range append(m.offers(it), m.refs(it, "sameAs")...) {
		if link := m.link(ref); link != "" && !seen[link] {
			seen[link] = true
			c.Links = append(c.Links, link)
		}
	}
	m.identify(c, it)
}

// offers returns the URLs of an event's offers. An offer may be just a URL.
func (m *mapper) offers(it *item) []string {
	var found []string
	for _, prop := range []string{"offers", "hasParticipationOffer"} {
		for _, v := range it.values(prop) {
			if v.item == nil {
				found = append(found, v.text)
			} else {
				found = append(found, m.refs(v.item, "url")...)
			}
		}
	}
	return found
}

// identify sets the identifiers of an event.
func (m *mapper) identify(c *candidate.Candidate, it *item) {
	if it.id != "" && !it.sharesID && !strings.HasPrefix(it.id, "_:") {
		c.ID = it.id
		if u := m.resolve(it.id); u != nil {
			c.ID = u.String()
		}
		c.Says(collect.FieldIdentity, it.path(), it.element(nil), c.ID)
	}
	for _, t := range m.things(it, "identifier") {
		if kind, v := t.one("propertyID"), t.one("value"); kind != "" && v != "" {
			c.IDs = append(c.IDs, identity.IDKey(strings.ToLower(m.page.URL.Hostname())+"|"+kind+"|"+v))
			m.says(c, collect.FieldIdentity, it, "identifier")
		}
	}
}

// maxRefs limits the URLs of a property.
const maxRefs = 50

// refs returns the URLs of a property, which are texts or items.
func (m *mapper) refs(it *item, prop string) []string {
	var found []string
	for _, v := range it.values(prop) {
		if len(found) == maxRefs || !m.budget.Work(20) {
			break
		}
		ref := v.text
		if v.item != nil {
			ref = cmp.Or(v.item.one("url"), v.item.one("contentUrl"), v.item.id)
		}
		if m.resolve(ref) != nil {
			found = append(found, ref)
		}
	}
	return found
}

func (m *mapper) published(c *candidate.Candidate, it *item) {
	s := m.stamp(it.one("datePublished"))
	if s == nil || !s.HasTime {
		return
	}
	loc, _ := timing.Resolve(timing.Clues{Home: m.page.Timezone, Start: *s})
	t := s.In(loc).UTC()
	c.PublishedAt = &t
	m.says(c, collect.FieldPublished, it, "datePublished")
}
