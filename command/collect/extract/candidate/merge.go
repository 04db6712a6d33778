package candidate

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// together combines the candidates of one event: pages repeat events in one or several syntaxes, each with other
// details. The first candidate, by syntax and position on the page, stays and is completed.
//
// Candidates are of one event if they share the title and a start and have compatible places. In one syntax their
// addresses and identifiers must not differ either, because sessions with one title at one hour exist.
func (o *observer) together(found []*Candidate) []*Candidate {
	slices.SortStableFunc(found, func(a, b *Candidate) int { return rank(a.Syntax) - rank(b.Syntax) })
	holdings := 0
	for _, c := range found {
		holdings += min(len(c.Holdings), maxCompared)
	}
	byDay := make(map[day][]*Candidate, holdings)
	kept := make([]*Candidate, 0, len(found))
	var undated []*Candidate
	for _, c := range found {
		if len(c.Holdings) == 0 {
			undated = append(undated, c)
			continue
		}
		days := o.days(c)
		if same := o.toldBefore(byDay, days, c); same != nil {
			same.merge(c)
			remember(byDay, o.days(same), same)
			continue
		}
		kept = append(kept, c)
		remember(byDay, days, c)
	}
	o.undated(kept, undated)
	return kept
}

// rank returns the precedence of a syntax.
func rank(s collect.Syntax) int {
	if i := slices.Index(ranked, s); i >= 0 {
		return i
	}
	return len(ranked)
}

// ranked are the syntaxes that precede all others, the best first.
var ranked = []collect.Syntax{
	collect.JSONLD, collect.Microdata, collect.RDFa, collect.Microformats, collect.HCalendar,
}

// maxCompared limits the comparisons of a candidate with those of the same title and day.
const maxCompared = 50

// day is a title on a date. It is the index of a candidate's holdings.
type day struct {
	plain string
	date  int // as in 20261205
}

// days returns the days of a candidate.
func (o *observer) days(c *Candidate) []day {
	all := make([]day, 0, min(len(c.Holdings), maxCompared))
	add := func(t time.Time) {
		year, month, date := t.Date()
		if d := (day{c.plain, year*1e4 + int(month)*100 + date}); !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	for i, h := range c.Holdings {
		if i == maxCompared || !o.budget.Work(20) {
			break
		}
		add(h.When.Start.Wall)
		if h.When.Start.HasOffset {
			home, _ := timing.Resolve(timing.Clues{Home: o.Timezone, Start: h.When.Start})
			add(h.When.Start.In(home))
		}
	}
	return all
}

func remember(byDay map[day][]*Candidate, days []day, c *Candidate) {
	for _, d := range days {
		if have := byDay[d]; len(have) < maxCompared && !slices.Contains(have, c) {
			byDay[d] = append(have, c)
		}
	}
}

func (o *observer) toldBefore(byDay map[day][]*Candidate, days []day, c *Candidate) *Candidate {
	for _, d := range days {
		if !o.budget.Work(1 + len(byDay[d])/16) {
			return nil
		}
		for _, other := range byDay[d] {
			if o.tellTheSame(other, c) {
				return other
			}
		}
	}
	return nil
}

func (o *observer) tellTheSame(a, b *Candidate) bool {
	if a.plain == "" || a.Syntax == b.Syntax && a.differsFrom(b) {
		return false
	}
	if !o.budget.Work(10+len(a.Holdings)*len(b.Holdings)) || !agree(a.Where, b.Where) {
		return false
	}
	for _, x := range a.Holdings {
		for _, y := range b.Holdings {
			if startsAgree(x.When.Start, y.When.Start, o.Timezone) {
				return true
			}
		}
	}
	return false
}

// differsFrom reports whether two candidates of one syntax have evidence of different events, or of the same one:
// those are combined by their key.
func (c *Candidate) differsFrom(b *Candidate) bool {
	bare := func(c *Candidate) bool { return c.url == nil && len(c.ids) == 0 }
	return !bare(c) && !bare(b) || bare(c) == bare(b)
}

// agree reports whether two locations may be one place.
func agree(a, b Where) bool {
	x, y := identity.Words(a.Venue), identity.Words(b.Venue)
	if x == "" || y == "" || x == y {
		return true
	}
	return strings.Contains(" "+x+" ", " "+y+" ") || strings.Contains(" "+y+" ", " "+x+" ")
}

// startsAgree reports whether two stamps may be one moment: the same clock, the same instant, or the same day if one
// has no time.
func startsAgree(a, b timing.Stamp, home string) bool {
	ay, am, ad := a.Wall.Date()
	by, bm, bd := b.Wall.Date()
	if !a.HasTime || !b.HasTime {
		return ay == by && am == bm && ad == bd
	}
	if a.Wall.Equal(b.Wall) {
		return true
	}
	if !a.HasOffset && !b.HasOffset {
		return false
	}
	loc, _ := timing.Resolve(timing.Clues{Home: home, Start: a})
	return a.In(loc).Equal(b.In(loc))
}

// undated completes the only event of their title with candidates without a date, and notes the remaining ones.
func (o *observer) undated(kept, undated []*Candidate) {
	if len(undated) == 0 {
		return
	}
	byTitle := map[string]*Candidate{}
	for _, c := range kept {
		if have, ok := byTitle[c.plain]; ok && have != c {
			byTitle[c.plain] = nil
			continue
		}
		byTitle[c.plain] = c
	}
	for _, c := range undated {
		if same := byTitle[c.plain]; same != nil && same.Syntax != c.Syntax && agree(same.Where, c.Where) {
			same.merge(c)
			continue
		}
		o.notes.Add(collect.NoteSkippedEvent, "%q was left out, for it has no date that can be read",
			markup.Shorten(c.Title, 80))
	}
}

// merge takes over what another candidate of the same event has in better form.
func (c *Candidate) merge(other *Candidate) {
	if len(markup.Plain(other.Description)) > len(markup.Plain(c.Description)) {
		c.Description = other.Description
		c.takeOrigins(collect.FieldDescription, other)
	}
	c.mergeHoldings(other)
	c.complete(other)
	c.Images, c.Links, c.ids = addNew(c.Images, other.Images), addNew(c.Links, other.Links), addNew(c.ids, other.ids)
	for _, u := range other.Addresses {
		if !slices.ContainsFunc(c.Addresses, func(have *url.URL) bool {
			return identity.Canonical(have) == identity.Canonical(u)
		}) && len(c.Addresses) < maxLinks {
			c.Addresses = append(c.Addresses, u)
		}
	}
	take(c, other, collect.FieldURL, &c.url, other.url)
	c.Version = max(c.Version, other.Version)
	c.Recurring = c.Recurring || other.Recurring
	c.Exhibition = c.Exhibition || other.Exhibition
	c.Series, c.Daily = c.Series || other.Series, c.Daily || other.Daily
	c.remark.Status = cmp.Or(c.remark.Status, other.remark.Status)
	c.remark.SoldOut = c.remark.SoldOut || other.remark.SoldOut
	c.completeCapacity(other)
}

// addNew appends the texts that a list lacks, up to maxLinks in all.
func addNew(list, more []string) []string {
	for _, text := range more {
		if !slices.Contains(list, text) && len(list) < maxLinks {
			list = append(list, text)
		}
	}
	return list
}

// take takes over a field that is missing, with its origins.
func take[T comparable](c, other *Candidate, field collect.Field, own *T, others T) {
	var missing T
	if *own == missing && others != missing {
		*own = others
		c.takeOrigins(field, other)
	}
}

// complete takes over missing fields, and the fields that all instances of a happening share.
func (c *Candidate) complete(other *Candidate) {
	take(c, other, collect.FieldDescription, &c.Description, other.Description)
	take(c, other, collect.FieldShortDescription, &c.ShortDescription, other.ShortDescription)
	take(c, other, collect.FieldOrganizer, &c.Organizer, other.Organizer)
	if c.Organizer != other.Organizer && other.Organizer != nil && identity.Words(c.Organizer.Name) == identity.Words(
		other.Organizer.Name) {
		whole := *c.Organizer
		whole.URL, whole.Contact = cmp.Or(whole.URL, other.Organizer.URL), cmp.Or(whole.Contact, other.Organizer.Contact)
		c.Organizer = &whole
	}
	if len(c.Images) == 0 && len(other.Images) > 0 {
		c.Images = slices.Clone(other.Images)
		c.takeOrigins(collect.FieldImage, other)
	}
	for _, field := range c.Where.complete(&other.Where) {
		c.takeOrigins(field, other)
	}
	c.venue = cmp.Or(c.Where.Venue, c.Where.Online)
	take(c, other, collect.FieldPublished, &c.PublishedAt, other.PublishedAt)
	take(c, other, collect.FieldTimezone, &c.Zone, other.Zone)
}

func (c *Candidate) completeCapacity(other *Candidate) {
	if other.Capacity == nil {
		return
	}
	take(c, other, collect.FieldCapacity, &c.Capacity, other.Capacity)
	whole := *c.Capacity
	whole.Total = cmp.Or(whole.Total, other.Capacity.Total)
	whole.Available = cmp.Or(whole.Available, other.Capacity.Available)
	c.Capacity = &whole
}

// mergeHoldings takes over details of instances: a time for a mere day, an end, an offset, a cancellation. Instances
// of other that are missing are added.
func (c *Candidate) mergeHoldings(other *Candidate) {
	for _, h := range other.Holdings {
		i := slices.IndexFunc(c.Holdings, func(have Holding) bool { return startsAgree(have.When.Start, h.When.Start, "") })
		if i < 0 {
			if zone, _ := timing.FindZone(other.Zone); zone != nil && c.Zone != "" && c.Zone != other.Zone {
				h.When, h.Clock = h.on(zone).Anchor(zone), nil
			}
			if len(c.Holdings) < maxOccurrences {
				c.Holdings = append(c.Holdings, h)
			}
			continue
		}
		have := &c.Holdings[i]
		if !have.When.Start.HasTime && h.When.Start.HasTime {
			have.When = h.When
			c.takeOrigins(collect.FieldStart, other)
			c.takeOrigins(collect.FieldEnd, other)
		}
		if !have.When.Start.HasOffset && h.When.Start.HasOffset && have.When.Start.Wall.Equal(h.When.Start.Wall) {
			have.When.Start = h.When.Start
			c.takeOrigins(collect.FieldStart, other)
		}
		if have.When.End == nil && have.When.Length == (timing.Length{}) && (h.When.End != nil ||
			h.When.Length != timing.Length{}) {
			have.When.End, have.When.Length = h.When.End, h.When.Length
			c.takeOrigins(collect.FieldEnd, other)
		}
		if have.Original == nil && h.Original != nil {
			have.Original = h.Original
		}
		if (have.Status == "" || have.Status == happening.Scheduled) && h.Status != "" && h.Status != happening.Scheduled {
			have.Status = h.Status
			c.takeOrigins(collect.FieldStatus, other)
		}
	}
}

// takeOrigins replaces the origins of a field by the other's.
func (c *Candidate) takeOrigins(field collect.Field, other *Candidate) {
	of := func(o collect.Origin) bool { return o.Field == field }
	taken := slices.DeleteFunc(slices.Clone(other.Origins), func(o collect.Origin) bool { return !of(o) })
	if len(taken) > 0 {
		c.Origins = append(slices.DeleteFunc(c.Origins, of), taken...)
	}
}
