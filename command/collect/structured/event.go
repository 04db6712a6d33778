package structured

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/identity"
	"carillon/command/collect/markup"
	"carillon/command/collect/timing"
)

// mapper turns event items into candidates.
type mapper struct {
	*document
	graph  *graph
	window timing.Window
	// expanded remembers what schedules gave, for each is asked twice.
	expanded map[scheduled][]timing.Range
}

// scheduled is a schedule as an event uses it.
type scheduled struct{ event, schedule *item }

// candidate is an event of a page, before it is known which are the same.
type candidate struct {
	// title is plain text; name is what tells titles apart, without remarks.
	title, name string
	venue       string
	// url is the event's own, nil if it has none; ids are identifiers that
	// its publisher made.
	url *url.URL
	ids []string
	// key and keys are set by assignKeys.
	key  string
	keys []string

	details     happening.Details
	publishedAt *time.Time
	holdings    []holding
	recurring   bool
	exhibition  bool
	loc         *time.Location
	hours       timing.Hours
}

// holding is one instance of an event.
type holding struct {
	when     timing.Range
	status   happening.Status
	original *timing.Stamp // the start it had at first
}

// candidates maps the events of a page. Sub-events that merely repeat an event
// become holdings of it.
func (m *mapper) candidates(events []*item) []*candidate {
	parts := m.repetitions(events)
	var found []*candidate
	for _, it := range events {
		if parts.isPart[it] {
			continue
		}
		if c := m.candidate(it, parts.of[it]); c != nil {
			found = append(found, c)
		}
	}
	if c := m.subject(found); c != nil {
		m.completeFromPage(c)
	}
	for _, c := range found {
		d := &c.details
		d.ShortDescription = first(d.ShortDescription, markup.Shorten(markup.Plain(d.Description), shortLength))
	}
	return found
}

// subject is the one event that the page is about, nil if there is none or
// more. A page that has no headings is about its only event.
func (m *mapper) subject(all []*candidate) *candidate {
	var subject *candidate
	for _, c := range all {
		if !m.about(c.name) && (len(all) > 1 || len(m.headings) > 0) {
			continue
		}
		if subject != nil && (subject.name != c.name || subject.venue != c.venue || subject.holdings[0].when.Start != c.holdings[0].when.Start) {
			return nil
		}
		if subject == nil {
			subject = c
		}
	}
	return subject
}

// repetitionsOf holds the sub-events that repeat an event, by that event.
type repetitionsOf struct {
	of     map[*item][]*item
	isPart map[*item]bool
}

// repetitions finds the sub-events that are an event's repetitions: they have
// its title, or none of their own.
func (m *mapper) repetitions(events []*item) repetitionsOf {
	r := repetitionsOf{of: map[*item][]*item{}, isPart: map[*item]bool{}}
	link := func(whole, part *item) {
		// An event can't be part of its own part.
		if whole == part || r.isPart[part] || r.isPart[whole] || len(r.of[part]) > 0 || !part.isEvent() || !m.repeats(whole, part) {
			return
		}
		r.isPart[part] = true
		r.of[whole] = append(r.of[whole], part)
	}
	for _, it := range events {
		for _, prop := range []string{"subEvent", "subEvents"} {
			for _, part := range m.graph.things(it, prop) {
				link(it, part)
			}
		}
		for _, whole := range m.graph.things(it, "superEvent") {
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
	name := identity.Title(m.graph.plain(part, "name"))
	return name == "" && len(m.graph.things(part, "location")) == 0 || name == identity.Title(m.graph.plain(whole, "name")) && name != ""
}

// candidate maps an event; nil, with a note, for one without title or date.
func (m *mapper) candidate(it *item, parts []*item) *candidate {
	c := &candidate{title: m.title(it), exhibition: it.is("ExhibitionEvent")}
	if c.title == "" {
		m.note(collect.NoteSkippedEvent, "an event without a title was left out")
		return nil
	}
	var remark identity.Remark
	c.name, remark = identity.SplitRemark(c.title)
	m.when(c, it, parts, remark)
	if len(c.holdings) == 0 {
		m.note(collect.NoteSkippedEvent, "%q was left out, for it has no date that can be read", markup.Shorten(c.title, 80))
		return nil
	}
	where := m.where(it)
	m.zone(c, it, where)
	c.venue, c.hours = first(where.venue, where.online), where.hours

	d := &c.details
	d.Title = c.title
	d.Description = markup.HTML(it.inLanguage("description", m.language))
	d.ShortDescription = m.graph.plain(it, "disambiguatingDescription")
	d.Capacity = m.capacity(it, remark.SoldOut)
	d.Organizer = m.organizer(it)
	d.PrimaryImage, d.SupportingImages = m.images(it)
	m.links(c, it)
	d.Location, d.GeoLocations = where.location(d.PrimaryURL, m.page.URL.String()), where.geoLocations()
	c.publishedAt = m.published(it)
	return c
}

// title is the event's name; else, where it stands inside of something that
// holds it, the name of that.
func (m *mapper) title(it *item) string {
	for _, prop := range []string{"name", "headline"} {
		if title := m.graph.plain(it, prop); title != "" {
			return title
		}
	}
	var others []*item
	if it.around != nil && (it.within == "event" || it.within == "events" || it.within == "subEvent" || it.within == "publication") {
		others = append(others, it.around)
	}
	for _, prop := range []string{"superEvent", "workPerformed", "workFeatured", "workPresented", "performer"} {
		others = append(others, m.graph.things(it, prop)...)
	}
	for _, other := range others {
		if title := m.graph.plain(other, "name"); title != "" {
			return title
		}
	}
	return ""
}

// completeFromPage takes what an event lacks from the page that is about it.
func (m *mapper) completeFromPage(c *candidate) {
	d := &c.details
	if d.Description == "" {
		d.Description = markup.HTML(m.description)
	}
	d.ShortDescription = first(d.ShortDescription, markup.Shorten(m.description, shortLength))
	d.PrimaryImage = first(d.PrimaryImage, m.image)
}

// links sets the URLs of an event and what identifies it.
func (m *mapper) links(c *candidate, it *item) {
	own := append(m.refs(it, "url"), m.refs(it, "mainEntityOfPage")...)
	idURL := m.identify(c, it)
	for _, ref := range append(slices.Clone(own), idURL) {
		if u := m.resolve(ref); u != nil && !m.isFrontPage(u) {
			c.url = u
			break
		}
	}
	if len(own) == 0 && idURL != "" {
		own = append(own, idURL)
	}
	d := &c.details
	if len(own) == 0 {
		shown := m.page.URL
		if m.about(c.name) {
			shown = m.canonical
		}
		d.URLs = append(d.URLs, identity.Clean(shown))
	}
	for _, ref := range slices.Concat(own, m.offers(it), m.refs(it, "sameAs")) {
		if link := m.link(ref); link != "" && !slices.Contains(d.URLs, link) {
			d.URLs = append(d.URLs, link)
		}
	}
	d.PrimaryURL = d.URLs[0] // own and idURL hold but what resolves
}

// offers gives the URLs of an event's offers. An offer may be no more than one.
func (m *mapper) offers(it *item) []string {
	var found []string
	for _, prop := range []string{"offers", "hasParticipationOffer"} {
		for _, v := range it.props[prop] {
			if v.item == nil {
				found = append(found, v.text)
			} else {
				found = append(found, m.refs(v.item, "url")...)
			}
		}
	}
	return found
}

// identify sets the identifiers of an event. It gives back the one that is a
// URL, or "".
func (m *mapper) identify(c *candidate, it *item) string {
	idURL := m.identifyingURL(it)
	switch {
	case idURL != "":
		c.ids = append(c.ids, identity.IDKey(idURL))
	case it.id != "" && !it.sharesID && !strings.HasPrefix(it.id, "_:") && m.resolve(it.id) == nil:
		c.ids = append(c.ids, identity.IDKey(it.id)) // such as a URN
	}
	for _, t := range m.graph.things(it, "identifier") {
		if kind, v := t.one("propertyID"), t.one("value"); kind != "" && v != "" {
			c.ids = append(c.ids, identity.IDKey(strings.ToLower(m.page.URL.Hostname())+"|"+kind+"|"+v))
		}
	}
	return idURL
}

// identifyingURL is the id of an event, if it is a URL that tells it from other
// things: not that of the page, nor the "#event" that templates put on each.
func (m *mapper) identifyingURL(it *item) string {
	if it.id == "" || it.sharesID {
		return ""
	}
	u := m.resolve(it.id)
	if u == nil {
		return ""
	}
	if identity.IsGeneric(u.Fragment) {
		bare := *u
		bare.Fragment, bare.RawFragment = "", ""
		if key := identity.Canonical(&bare); key == identity.Canonical(m.page.URL) || key == identity.Canonical(m.base) {
			return ""
		}
		u = &bare
	}
	return u.String()
}

// refs gives the URLs that a property holds, as texts or as items.
func (m *mapper) refs(it *item, prop string) []string {
	var found []string
	for _, v := range it.props[prop] {
		ref := v.text
		if v.item != nil {
			ref = first(v.item.one("url"), v.item.one("contentUrl"), v.item.id)
		}
		if m.resolve(ref) != nil {
			found = append(found, ref)
		}
	}
	return found
}

// isFrontPage: publishers put the address of their front page where they have
// none for an event.
func (m *mapper) isFrontPage(u *url.URL) bool {
	front := func(u *url.URL) bool { return strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == "" }
	return front(u) && identity.SameSite(u, m.page.URL) && !front(m.page.URL)
}

func (m *mapper) published(it *item) *time.Time {
	s, err := timing.Parse(it.one("datePublished"), m.monthFirst)
	if err != nil || !s.HasTime {
		return nil
	}
	loc, _ := timing.Resolve(timing.Clues{Home: m.page.Timezone, Start: s})
	t := s.In(loc).UTC()
	return &t
}
