// Package posts makes events of the posts of platforms whose text has the clear date of an event.
//
//	text ──▶ words ──▶ dates ──▶ gate ──▶ clocks, title, place ──▶ candidates
//	         without   of the    an event's day, no deadline,
//	         prices    future    sale, birthday or memory
//
// A date parser is not enough: "£10", "24/7" and "until 5 December" are not dates of events. A date counts only if its
// day is stated, by day and month or by words such as "tomorrow" relative to the time of the post; if it lies after
// the post, at most 18 months; if its sentence is not about a deadline, sale, closing, birthday or report; and if
// words beside it are about an event. All rules are patterns and lists of words, in English, German, French, Spanish,
// Italian, Portuguese, Dutch, Danish, Norwegian, Swedish and some Japanese. Of a post in another language only the
// numbers count.
package posts

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/timing"
)

// Post is a text with its time.
type Post struct {
	// Text is the original text, Field the platform's name of it, such as "message".
	Text, Field string
	// CreatedAt is the reference of words such as "tomorrow", and of dates without a year.
	CreatedAt time.Time
	// Permalink is the address of the post.
	Permalink *url.URL
	// Zone is the IANA zone of the source. Optional.
	Zone string
	// Organizer is the author.
	Organizer *happening.Organizer
	// About are words around the text, such as the heading of the list that it is in. Optional.
	About string
	// Certain marks a text that is known to be of an event.
	Certain bool
	// Images and Links are absolute addresses.
	Images, Links []string
	// Where is the platform's own data about the place.
	Where candidate.Where
}

// Passed is a date that belongs to no event.
type Passed struct {
	Words string // as written
	Why   string
}

// maxText limits how much of a post is read, in bytes. Platforms allow up to 63,206 characters, but announcements are
// near the beginning.
const maxText = 8 << 10

// Read returns the events of a post, and the dates that belong to none. The result is invalid if the budget has ended.
func Read(b *budget.Budget, p Post) ([]*candidate.Candidate, []Passed) {
	r := newReader(b, p)
	if len(r.dates) == 0 {
		return nil, nil
	}
	if r.text.hide() {
		r.words = r.text.tokens()
		r.dates = r.findDates()
	}
	r.clocks = r.findClocks()
	r.joinRanges()
	r.every = r.dates
	r.selectDates()
	return r.candidates(), r.passed
}

// Days returns the days of a post that may be an event's, and reports whether it has any dates. It takes less time than
// [Read].
func Days(b *budget.Budget, p Post) (days []time.Time, dated bool) {
	all := newReader(b, p).dates
	for _, d := range all {
		if d.wrong == "" {
			days = append(days, d.days...)
		}
	}
	return days, len(all) > 0
}

// newReader returns a reader with the words and the dates of a post.
func newReader(b *budget.Budget, p Post) *reader {
	text := cut(p.Text)
	if text == "" || p.CreatedAt.IsZero() || !b.Work(40+4*len(text)) {
		return &reader{}
	}
	zone := timing.LoadZone(p.Zone)
	if zone == nil {
		zone = time.UTC
	}
	created := p.CreatedAt.In(zone)
	r := &reader{
		post:       p,
		text:       newText(text),
		budget:     b,
		wall:       timing.WallOf(created).Truncate(time.Minute),
		today:      timing.Midnight(timing.WallOf(created)),
		monthFirst: writesMonthFirst(p.Zone),
		contexts:   map[int]context{},
	}
	r.words = r.text.tokens()
	r.dates = r.findDates()
	return r
}

func cut(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return strings.TrimSpace(text)
}

// writesMonthFirst reports whether people in the zone write the month first in figures, as North Americans do.
func writesMonthFirst(zone string) bool {
	return slices.Contains(monthFirstZones, zone) || strings.HasPrefix(zone, "America/Indiana/") ||
		strings.HasPrefix(zone, "America/Kentucky/") || strings.HasPrefix(zone, "US/")
}

var monthFirstZones = []string{
	"America/New_York", "America/Detroit", "America/Chicago", "America/Denver", "America/Boise", "America/Phoenix",
	"America/Los_Angeles", "America/Anchorage", "Pacific/Honolulu",
}

// reader reads one post.
type reader struct {
	post       Post
	text       *text
	budget     *budget.Budget
	wall       time.Time // time of the post as a wall clock
	today      time.Time // its day
	monthFirst bool

	words  []token
	dates  []date // those that remain after selectDates
	every  []date
	clocks []clock
	passed []Passed

	whole    string          // the words of the post
	contexts map[int]context // by sentence
	// event and invitation are the words of these lexicons anywhere in the post; nil before the search
	event, invitation *string
}

func (r *reader) pass(d date, why string) {
	r.passed = append(r.passed, Passed{Words: r.text.between(r.words, d.from, d.to), Why: why})
}

// candidates returns an event of the remaining dates, or one for each of a list of events.
func (r *reader) candidates() []*candidate.Candidate {
	var found []*candidate.Candidate
	for _, group := range r.groups() {
		if c := r.candidate(group); c != nil && r.budget.Memory(1000+len(r.text.shown)) {
			found = append(found, c)
		}
	}
	return found
}

func (r *reader) candidate(group []date) *candidate.Candidate {
	title, line := r.title(group)
	if title == "" {
		for _, d := range group {
			r.pass(d, "there is no title beside it")
		}
		return nil
	}
	c := &candidate.Candidate{
		Syntax:      collect.PostText,
		Title:       title,
		Description: markup.HTML(r.post.Text),
		Organizer:   r.post.Organizer,
		Images:      r.post.Images,
		Links:       r.post.Links,
		Where:       r.post.Where,
	}
	published := r.post.CreatedAt
	c.PublishedAt = &published
	if r.post.Permalink != nil {
		c.Addresses = []*url.URL{r.post.Permalink}
		c.Says(collect.FieldURL, "permalink", "", r.post.Permalink.String())
	}
	c.Says(collect.FieldTitle, r.post.Field, element(line), title)
	c.Says(collect.FieldDescription, r.post.Field, "", r.post.Text)
	c.Says(collect.FieldPublished, "created", "", published.UTC().Format(time.RFC3339))
	if w := c.Where; !w.Known() && !w.IsOnline {
		r.place(c)
	} else {
		c.Says(collect.FieldLocation, "place", "", strings.TrimSpace(w.Venue+" "+w.AddressText))
	}
	if c.Organizer != nil {
		c.Says(collect.FieldOrganizer, "author", "", c.Organizer.Name)
	}
	if len(c.Images) > 0 {
		c.Says(collect.FieldImage, "picture", "", c.Images[0])
	}
	status, moved := r.fate(group)
	for i, d := range group {
		at := r.clockOf(d)
		if moved && i == 0 {
			continue // the original start of the other
		}
		for _, h := range r.holdings(d, at) {
			h.Status = status
			if moved {
				h.Original = &timing.Stamp{Wall: group[0].days[0].Add(h.When.Start.Wall.Sub(d.days[0])),
					HasTime: h.When.Start.HasTime}
			}
			c.Holdings = append(c.Holdings, h)
		}
		words := r.text.between(r.words, d.from, d.to)
		if at != nil && at.line == r.words[d.from].line && at.from >= d.to {
			words = r.text.between(r.words, d.from, at.to)
		} else if at != nil {
			words += " … " + r.text.between(r.words, at.from, at.to)
		}
		c.Says(collect.FieldStart, r.post.Field, element(r.words[d.from].line), words+" ("+strings.Join(d.reasons, ", ")+")")
	}
	return c
}

// fate returns the status of an event. A moved one has two dates, of which the second counts.
func (r *reader) fate(group []date) (status happening.Status, moved bool) {
	around := r.contextOf(group[0].from).sentence
	if cancelledWords.find(around) != "" {
		return happening.Cancelled, false
	}
	if postponedWords.find(around) == "" {
		return "", false
	}
	if len(group) == 2 && len(group[0].days)+len(group[1].days) == 2 && group[0].last.IsZero() && group[1].last.IsZero() &&
		r.at(group[0].from).sentence == r.at(group[1].from).sentence {
		return happening.Rescheduled, true
	}
	return happening.Postponed, false
}

func element(line int) string { return fmt.Sprintf("line %d", line+1) }

// holdings returns the days of a date: each of a list, or the whole range.
func (r *reader) holdings(d date, at *clock) []candidate.Holding {
	stamp := func(day time.Time) timing.Stamp {
		if at == nil {
			return timing.Stamp{Wall: day}
		}
		return timing.Stamp{Wall: day.Add(at.start), HasTime: true}
	}
	days, last := d.days, d.last
	if n := len(days); n > 1 && at == nil && days[n-1].Equal(days[0].AddDate(0, 0, n-1)) {
		days, last = days[:1], days[n-1]
	}
	all := make([]candidate.Holding, 0, len(days))
	for _, day := range days {
		h := candidate.Holding{When: timing.Range{Start: stamp(day)}}
		switch {
		case at != nil && d.until != nil:
			h.When.End = &timing.Stamp{Wall: last.Add(d.until.start), HasTime: true}
		case at != nil && at.hasEnd:
			end := day
			if !last.IsZero() {
				end = last
			}
			if at.end <= at.start && last.IsZero() {
				end = end.AddDate(0, 0, 1)
			}
			h.When.End = &timing.Stamp{Wall: end.Add(at.end), HasTime: true}
		case !last.IsZero():
			h.When.End = &timing.Stamp{Wall: last}
		}
		all = append(all, h)
	}
	return all
}
