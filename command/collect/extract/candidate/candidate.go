// Package candidate connects the syntaxes of events with observations. Structured data, microformats, calendars and
// posts make candidates; the rest is the same for all.
//
//	candidates ──▶ tellings of one event ──▶ evidence ──▶ candidates ──▶ observations
//	of a page      are combined              of identity   of one key
//
// It is independent of HTML and iCalendar. Each field carries its origin.
package candidate

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// Candidate is an event in one syntax of a page, before equal ones are combined.
type Candidate struct {
	Syntax collect.Syntax
	// Title is plain text, with remarks such as "(sold out)".
	Title string
	// Addresses are the event's own pages, the best first; the first one that is not a front page identifies it.
	Addresses []*url.URL
	// ID is an absolute URL or a URN from the publisher that no other event of the page has.
	ID string
	// IDs are further keys of [identity.IDKey]: identifiers from the publisher, scoped to it.
	IDs []string
	// Description is sanitised HTML, ShortDescription plain text.
	Description      string
	ShortDescription string
	Where            Where
	Capacity         *happening.Capacity
	Organizer        *happening.Organizer
	// Images and Links are absolute and displayable. Links are those besides Addresses, such as ticket shops.
	Images, Links []string
	PublishedAt   *time.Time
	// Holdings are the event's instances. A candidate without any completes another one or is left out.
	Holdings []Holding
	// Version counts the changes of the event at its source. Optional.
	Version int
	// Recurring marks a recurring event even if only one instance is known.
	Recurring  bool
	Exhibition bool
	// Series marks an event whose end is that of its last instance, Daily one that is open each day.
	Series, Daily bool
	// Zone is the IANA zone that the event states. Optional.
	Zone string
	// Origins are the origins of the fields, see [Candidate.Says].
	Origins []collect.Origin

	// name is the title without remarks, plain the same for comparison, venue distinguishes places.
	name, plain, venue string
	remark             identity.Remark
	url                *url.URL // the identifying one of Addresses and ID
	urlKey             string   // its key. Optional
	ids                []string // of ID and IDs
	pageID             bool     // ID is the page's URL, as some templates have it on each page
	key                string   // set by assignKeys, as are the next three
	keys               []string
	alias              string   // optional
	own                bool     // the page is the event's own
	versions           []string // keys of the page's versions in other languages, if it is
	translated         bool     // another version of the page counts more
	primary            string   // URL to show first
	urls               []string
}

// Holding is one instance of an event.
type Holding struct {
	When timing.Range
	// Status is "" if the source states none.
	Status happening.Status
	// Original is the first start of a moved instance; nil if it has not moved.
	Original *timing.Stamp
	// Clock is a start whose offset is that of the schedule's clock. Optional. When has no offset then.
	Clock *timing.Stamp
}

// on returns the time of the holding in a zone. Repetitions stay on the clock of the zone, whatever offset the
// schedule has.
func (h Holding) on(loc *time.Location) timing.Range {
	if h.Clock == nil {
		return h.When
	}
	_, offset := h.Clock.In(loc).Zone()
	return h.When.Shift(time.Duration(offset-h.Clock.Offset) * time.Second)
}

// Page is the context of candidates: the properties of a page, a calendar or a profile.
type Page struct {
	// URL is its address.
	URL *url.URL
	// Canonical is the address that it names as its own, Base the base of its references. nil means URL.
	Canonical, Base *url.URL
	// Listing is the page of the source that led here, which many pages name as the address of their events. Optional.
	Listing *url.URL
	// Timezone is that of the source, Home its address. Optional.
	Timezone string
	Home     *url.URL
	// Versions are those of the page in its languages, and Beside is the page that links a calendar beside it, which is
	// that of its only event. Optional.
	Versions []Version
	Beside   *url.URL
	// Headings are the subjects of the page, as [identity.Words] returns them.
	Headings []string
	// Description is plain text, Image an absolute URL. They complete the one event that is the page's subject.
	Description, Image string
	Window             timing.Window
	// Many marks a calendar or the like, which has all events of a publisher, and none as its subject. Its address may be
	// a secret, and is not visible.
	Many bool
	// Source marks the page of the source's own address, whose query may be a secret and is not visible.
	Source bool
	// Limit is the maximum number of observations. 0 means 2000.
	Limit int
}

const (
	// defaultLimit limits the happenings of one page.
	defaultLimit = 2000
	// maxOccurrences limits the occurrences of one happening, so that it fits into a stored event.
	maxOccurrences = 1000
	// maxTitle, maxDescription and maxLinks limit the contents of one happening for the same reason. The first two are in
	// characters and bytes.
	maxTitle       = 500
	maxDescription = 128 << 10
	maxLinks       = 40
	// shortLength is the length of a short description that is cut from the long one, maxShort the maximum length of a
	// given one.
	shortLength = 200
	maxShort    = 1000
	// originText limits the quoted text of an origin, in bytes.
	originText = 160
)

// Says records the origin of a field.
func (c *Candidate) Says(field collect.Field, path, element, text string) {
	if text = strings.TrimSpace(text); len(text) > originText {
		text = strings.ToValidUTF8(text[:originText], "") + "…"
	}
	c.Origins = append(c.Origins, collect.Origin{
		Field:   field,
		Syntax:  c.Syntax,
		Path:    path,
		Element: element,
		Text:    strings.Clone(text),
	})
}

// isGuess reports whether no markup makes the candidate an event. It counts on pages without any better one.
func (c *Candidate) isGuess() bool { return c.Syntax == collect.List }

// HasMarkup reports whether one of the candidates has a syntax of events.
func HasMarkup(found []*Candidate) bool {
	return slices.ContainsFunc(found, func(c *Candidate) bool { return !c.isGuess() })
}

// Result has the observations of a page's candidates.
type Result struct {
	// Observations have Source unset; the collector sets it.
	Observations []collect.Observation
	Notes        collect.Notes
}

// Observe returns the observations of a page's candidates, and its notes after those of the reader. The result is
// invalid if the budget has ended.
func Observe(b *budget.Budget, page Page, found []*Candidate, notes collect.Notes) Result {
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
	if HasMarkup(found) {
		found = slices.DeleteFunc(found, (*Candidate).isGuess)
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
	return Result{Observations: observations, Notes: append(notes, o.notes...)}
}

// observer processes one page.
type observer struct {
	Page
	budget *budget.Budget
	notes  collect.Notes
	// shown is the displayed address of the page; key and canonicalKey are the keys of its two addresses.
	shown, key, canonicalKey string
	// subjects caches the results of about by title.
	subjects map[string]bool
}

// named removes candidates without a title, and prepares the others for comparison.
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

// minHeading is the minimum length of a heading that is looked up in titles.
const minHeading = 8

// about reports whether the title is a subject of the page: one of its headings contains the title, or the title a
// heading.
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
		if c.plain != "" && (within(h, c.plain) || len(h) >= minHeading && within(c.plain, h)) {
			known = true
			break
		}
	}
	o.subjects[c.plain] = known
	return known
}

// subject returns the only event that is a subject of the page, nil if there is none or more. Without headings the
// only event is the subject.
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

// completeFromPage completes an event from the page that is about it.
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

// finish derives the zone, the links and the limits of a combined event.
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

// zone returns the timezone of an event. own reports whether the event states it, rather than the source.
func (o *observer) zone(c *Candidate) (loc *time.Location, own, assumed bool) {
	clues := c.clues(o.Timezone)
	loc, assumed = timing.Resolve(clues)
	stated, _ := timing.FindZone(clues.Stated)
	return loc, stated != nil || clues.PlaceSure, assumed
}

// clues returns the clues of a candidate about its zone; home is the zone of its source.
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

// Location returns the zone of a candidate, nil if neither it nor its source has one.
func (c *Candidate) Location(home string) *time.Location {
	loc, assumed := timing.Resolve(c.clues(home))
	if assumed {
		return nil
	}
	return loc
}

// links sets the URLs of an event, its own first. An event without one has the page's.
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

// showing returns the displayed form of an address of the page.
func (o *observer) showing(u *url.URL) string {
	if o.Source && identity.SamePage(u, o.URL) {
		return identity.Public(u)
	}
	return identity.Clean(u)
}
