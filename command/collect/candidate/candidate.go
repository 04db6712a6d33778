// Package candidate is the middle between the syntaxes in which events are written down and what is observed of them.
// Structured data, microformats, calendars and posts make candidates; what follows is the same for all.
//
//	candidates ──▶ tellings of one event ──▶ evidence ──▶ candidates ──▶ observations
//	of a page      are put together          of identity   of one key
//
// It knows neither HTML nor the lines of calendars. Each field carries where it came from.
package candidate

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/identity"
	"carillon/command/collect/markup"
	"carillon/command/collect/timing"
)

// Candidate is an event as one syntax of a page tells it, before it is known which are the same.
type Candidate struct {
	Syntax collect.Syntax
	// Title is plain text, with such remarks as "(sold out)".
	Title string
	// Addresses are the event's own pages, the best first; of them the first identifies it that is no front page.
	Addresses []*url.URL
	// ID is an absolute URL or a URN that its publisher gave the event, and that no other event of the page bears.
	ID string
	// IDs are further keys of [identity.IDKey]: an identifier that its publisher made, scoped to him.
	IDs []string
	// Description is sanitised HTML, ShortDescription plain text.
	Description      string
	ShortDescription string
	Where            Where
	Capacity         *happening.Capacity
	Organizer        *happening.Organizer
	// Images and Links are absolute and fit to be shown. Links are those beside Addresses, such as where tickets are
	// sold.
	Images, Links []string
	PublishedAt   *time.Time
	// Holdings are the event's instances. A candidate without any is told of nowhere else or left out.
	Holdings []Holding
	// Version counts the changes of the event at its source. Optional.
	Version int
	// Recurring says so even if only one instance is known.
	Recurring  bool
	Exhibition bool
	// Zone is the IANA zone that the event itself states, or "".
	Zone string
	// Origins say what gave the fields, see [Candidate.Says].
	Origins []collect.Origin

	// name is the title without remarks, plain the same fit for comparing, venue what tells places apart.
	name, plain, venue string
	remark             identity.Remark
	url                *url.URL // of Addresses and ID, the one that identifies
	urlKey             string   // its key, "" where there is none
	ids                []string // of ID and IDs
	pageID             bool     // ID is the page's URL, as templates put it on each
	key                string   // set by assignKeys, as are the next three
	keys               []string
	alias              string // "" for none
	own                bool   // the page is the event's own
	primary            string // URL to show first
	urls               []string
}

// Holding is one instance of an event.
type Holding struct {
	When timing.Range
	// Status is "" where the source says nothing.
	Status happening.Status
	// Original is the start that the instance had at first, nil where it is known by the one it has.
	Original *timing.Stamp
	// Clock is a start by which the schedule says on which clock it is, by its offset; nil if it says nothing. When names
	// no offset then.
	Clock *timing.Stamp
}

// on is when the holding takes place in a zone. What a schedule repeats stays on the clock of the zone, whichever
// offset the schedule names.
func (h Holding) on(loc *time.Location) timing.Range {
	if h.Clock == nil {
		return h.When
	}
	_, offset := h.Clock.In(loc).Zone()
	return h.When.Shift(time.Duration(offset-h.Clock.Offset) * time.Second)
}

// Page is what candidates are judged against: what a page, a calendar or a profile says about itself.
type Page struct {
	// URL is where it was found.
	URL *url.URL
	// Canonical is its own idea of its address, Base what its relative references are relative to; nil: URL.
	Canonical, Base *url.URL
	// Listing is the page of the source that led here, which many pages name as the address of their events; nil: none.
	Listing *url.URL
	// Timezone is that of the source, or "".
	Timezone string
	// Headings are what the page says it is about, as [identity.Words] gives them.
	Headings []string
	// Description is plain text, Image an absolute URL. They complete the one event that the page is about.
	Description, Image string
	Window             timing.Window
	// Many: it shows whatever its publisher has, as a calendar does, and is about none of it. Its address may be a secret,
	// and is not shown.
	Many bool
	// Source: its address is that of the source, whose query may be a secret and is not shown.
	Source bool
	// Limit caps the observations; 0: 2000.
	Limit int
}

const (
	// defaultLimit caps the happenings of one page.
	defaultLimit = 2000
	// maxOccurrences caps the occurrences of one happening, so that it fits into an event of the store.
	maxOccurrences = 1000
	// maxTitle, maxDescription and maxLinks bound what one happening can hold, for the same reason. The first two are
	// in characters and bytes.
	maxTitle       = 500
	maxDescription = 128 << 10
	maxLinks       = 40
	// shortLength is where a description is cut for want of a short one, maxShort where a short one is too long.
	shortLength = 200
	maxShort    = 1000
	// originText is how much of a text is quoted as an origin, in bytes.
	originText = 160
)

// Says notes what gave a field.
func (c *Candidate) Says(field collect.Field, path, element, text string) {
	if text = strings.TrimSpace(text); len(text) > originText {
		cut := originText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	c.Origins = append(c.Origins, collect.Origin{
		Field:   field,
		Syntax:  c.Syntax,
		Path:    path,
		Element: element,
		Text:    strings.Clone(text),
	})
}

// Result is what the candidates of a page come to.
type Result struct {
	// Observations have Source unset: that is the collector's.
	Observations []collect.Observation
	Notes        collect.Notes
}

// Observe makes observations of the candidates of a page. Where the budget ends meanwhile, the result means nothing.
func Observe(b *budget.Budget, page Page, found []*Candidate) Result {
	if page.Canonical == nil || page.namesMany(page.Canonical) || isSection(page.Canonical, page.URL) {
		page.Canonical = page.URL
	}
	if page.Base == nil {
		page.Base = page.URL
	}
	if page.Limit == 0 {
		page.Limit = defaultLimit
	}
	o := &observer{
		Page:         page,
		budget:       b,
		subjects:     map[string]bool{},
		shown:        identity.Clean(page.URL),
		key:          identity.URLKey(page.URL),
		canonicalKey: identity.URLKey(page.Canonical),
	}
	found = o.together(o.named(found))
	subject := o.subject(found)
	if subject != nil {
		o.completeFromPage(subject)
	}
	for _, c := range found {
		o.finish(c)
	}
	o.assignKeys(found, subject)
	observations := o.observations(found)
	return Result{Observations: observations, Notes: o.notes}
}

// observer works on one page.
type observer struct {
	Page
	budget *budget.Budget
	notes  collect.Notes
	// shown is the address of the page as it may be shown, key and canonicalKey what its two addresses identify.
	shown, key, canonicalKey string
	// subjects remembers what about said of a title.
	subjects map[string]bool
}

// named leaves out what has no title, and sets what is compared of the others.
func (o *observer) named(found []*Candidate) []*Candidate {
	titled := make([]*Candidate, 0, len(found))
	for _, c := range found {
		if !o.budget.Work(100) {
			return nil
		}
		if c.Title = markup.Shorten(c.Title, maxTitle); c.Title == "" {
			o.notes.Add(collect.NoteSkippedEvent, "an event without a title was left out")
			continue
		}
		c.name, c.remark = identity.SplitRemark(c.Title)
		c.plain = identity.Title(c.name)
		c.venue = cmp.Or(c.Where.Venue, c.Where.Online)
		o.identify(c)
		titled = append(titled, c)
	}
	return titled
}

// tellingLength is how long a heading has to be to be found in a title.
const tellingLength = 8

// about says that the page as a whole is about something of this title: one of its headings holds the title, or the
// title a heading.
func (o *observer) about(c *Candidate) bool {
	known, ok := o.subjects[c.plain]
	if ok {
		return known
	}
	within := func(whole, part string) bool { return strings.Contains(" "+whole+" ", " "+part+" ") }
	for _, h := range o.Headings {
		if !o.budget.Work(1 + (len(h)+len(c.plain))/64) {
			break
		}
		if c.plain != "" && (within(h, c.plain) || len(h) >= tellingLength && within(c.plain, h)) {
			known = true
			break
		}
	}
	o.subjects[c.plain] = known
	return known
}

// subject is the one event that the page is about, nil if there is none or more. A page that has no headings is about
// its only event.
func (o *observer) subject(all []*Candidate) *Candidate {
	var subject *Candidate
	for _, c := range all {
		if !o.about(c) && (len(all) > 1 || len(o.Headings) > 0) {
			continue
		}
		if subject != nil && (subject.name != c.name || subject.venue != c.venue ||
			subject.Holdings[0].When.Start != c.Holdings[0].When.Start) {
			return nil
		}
		if subject == nil {
			subject = c
		}
	}
	return subject
}

// completeFromPage takes what an event lacks from the page that is about it.
func (o *observer) completeFromPage(c *Candidate) {
	before := c.Syntax
	c.Syntax = collect.PageHead
	defer func() { c.Syntax = before }()
	if c.Description == "" && o.Description != "" {
		c.Description = markup.HTML(o.Description)
		c.Says(collect.FieldDescription, "description", "head", o.Description)
	}
	if c.ShortDescription == "" && o.Description != "" {
		c.ShortDescription = markup.Shorten(o.Description, shortLength)
		c.Says(collect.FieldShortDescription, "description", "head", o.Description)
	}
	if len(c.Images) == 0 && o.Image != "" {
		c.Images = []string{o.Image}
		c.Says(collect.FieldImage, "image", "head", o.Image)
	}
}

// finish decides what follows from all that is told of an event: its zone, its links, its bounds.
func (o *observer) finish(c *Candidate) {
	if !o.budget.Work(100 + len(c.Description)/16) {
		return
	}
	if len(c.Description) > maxDescription {
		c.Description = markup.HTML(markup.Shorten(markup.Plain(c.Description), maxDescription/4))
	}
	c.ShortDescription = markup.Shorten(c.ShortDescription, maxShort)
	c.ShortDescription = cmp.Or(c.ShortDescription, markup.Shorten(markup.Plain(c.Description), shortLength))
	o.links(c)
	if c.remark.SoldOut {
		if c.Capacity == nil {
			c.Capacity = &happening.Capacity{}
		}
		c.Capacity.Available = new(int)
	}
}

// zone finds the timezone of an event. Own reports whether the event itself says so, rather than the source.
func (o *observer) zone(c *Candidate) (loc *time.Location, own, assumed bool) {
	clues := c.clues(o.Timezone)
	loc, assumed = timing.Resolve(clues)
	stated, _ := timing.FindZone(clues.Stated)
	return loc, stated != nil || clues.PlaceSure, assumed
}

// clues are what a candidate tells about its zone, and home the zone of its source.
func (c *Candidate) clues(home string) timing.Clues {
	clues := timing.Clues{Stated: c.Zone, Home: home}
	clues.Place, clues.PlaceSure = c.Where.zones(home)
	if len(c.Holdings) > 0 {
		clues.Start = c.Holdings[0].When.Start
		if clock := c.Holdings[0].Clock; clock != nil {
			clues.Start = *clock
		}
	}
	return clues
}

// Location is the zone that a candidate is in as far as it tells, nil if neither it nor its source does.
func (c *Candidate) Location(home string) *time.Location {
	loc, assumed := timing.Resolve(c.clues(home))
	if assumed {
		return nil
	}
	return loc
}

// links sets the URLs of an event, its own first. One that has none is shown by the page.
func (o *observer) links(c *Candidate) {
	add := func(link string) {
		if link != "" && len(c.urls) < maxLinks && !slices.Contains(c.urls, link) {
			c.urls = append(c.urls, link)
		}
	}
	for _, u := range c.Addresses {
		add(identity.Clean(u))
	}
	if len(c.Addresses) == 0 && !o.Many {
		shown := o.URL
		if o.about(c) {
			shown = o.Canonical
		}
		add(o.showing(shown))
	}
	for _, link := range c.Links {
		add(link)
	}
	if len(c.urls) > 0 {
		c.primary = c.urls[0]
	}
}

// showing is an address of the page as it may be shown.
func (o *observer) showing(u *url.URL) string {
	if o.Source && identity.SamePage(u, o.URL) {
		return identity.Public(u)
	}
	return identity.Clean(u)
}
