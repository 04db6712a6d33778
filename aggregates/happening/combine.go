package happening

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
)

// Sighting is a happening as one page of a source, or a source as a whole, shows it.
type Sighting struct {
	SourceID uuid.UUID
	// Page distinguishes the pages of one source; it is empty for a source as a whole.
	Page string
	// Of is the happening that the source shows, if that was merged into this one.
	Of       uuid.UUID
	Standing Standing
	Details  Details
	Source   Block
	// PublishedAt is when the source first published it. Optional.
	PublishedAt *time.Time
	Origins     []Origin
	// Keys are strong evidence of its identity.
	Keys []string
	// Version is that of the source, see [Observed].
	Version int
	// Stale marks a sighting that its source no longer shows. It counts in two cases only: for the status Cancelled, and
	// if every sighting is stale.
	Stale bool
	// Since is when the sighting was first observed.
	Since time.Time
	// DatedAt is when the dates and statuses last changed. Other changes, or the same dates again, do not move it.
	DatedAt time.Time
}

// Combined is a happening as all its sightings together describe it.
type Combined struct {
	Details     Details
	Source      Block
	PublishedAt *time.Time
	// Standing is the highest one of the sightings.
	Standing Standing
	// Origins are those of the given fields, if the sightings have any.
	Origins []Origin

	given map[Field][]int // nil for a single sighting
}

// GivenBy returns the indexes of the sightings that gave a field. A field of several parts may have several.
func (c *Combined) GivenBy(field Field) []int {
	if c.given == nil {
		return []int{0}
	}
	return c.given[field]
}

const (
	// maxLinks limits the links of a combined happening, as collectors do for one page.
	maxLinks = 40
	// maxCombined limits its occurrences, so that it fits into an event.
	maxCombined = 1000
)

// Combine combines sightings of one happening. Their order does not matter, repetitions change nothing, and a single
// sighting is returned unchanged. "First" is the order of precedence: the standing (the platform's own record, the
// happening's own page, a listing, a post), then the age of the sighting. The rules, by field:
//   - The first sighting gives a field; the others complete it part by part.
//   - For dates and statuses the newest of equal standing is first. Instances are merged, see dates.
//   - The description is the fullest one, of a post only if there is no other.
//   - The images are those of the sighting with most of them.
//   - Only sightings of the same place complete a place.
//   - Links are collected from all.
func Combine(sightings []Sighting) Combined {
	switch len(sightings) {
	case 0:
		return Combined{}
	case 1:
		t := &sightings[0]
		return Combined{
			Details:     t.Details,
			Source:      t.Source,
			PublishedAt: t.PublishedAt,
			Standing:    t.Standing,
			Origins:     t.Origins,
		}
	}
	c := combiner{sightings: sightings, out: Combined{given: map[Field][]int{}}}
	for i := range sightings {
		c.all = append(c.all, i)
	}
	slices.SortFunc(c.all, func(i, j int) int { return sightings[i].before(&sightings[j]) })
	c.live = slices.DeleteFunc(slices.Clone(c.all), func(i int) bool { return sightings[i].Stale })
	if len(c.live) == 0 {
		c.live = c.all
	}
	best := &sightings[c.live[0]]
	c.out.Source, c.out.Standing = best.Source, best.Standing
	c.words()
	c.place()
	c.organizer()
	c.capacity()
	c.images()
	c.links()
	c.published()
	c.dates()
	for _, field := range Fields {
		for _, i := range c.out.given[field] {
			c.out.Origins = AddOrigins(c.out.Origins, only(sightings[i].Origins, field)...)
		}
	}
	return c.out
}

// combiner combines the sightings of one happening.
type combiner struct {
	sightings []Sighting
	all       []int // in order of precedence
	live      []int // those of all that are visible, or all if none is
	out       Combined
}

// Best returns the index of the sighting with the highest precedence: of the visible ones or, if there is none, of all.
// sightings must not be empty.
func Best(sightings []Sighting) int {
	best := 0
	for i := range sightings {
		a, b := &sightings[i], &sightings[best]
		if a.Stale == b.Stale && a.before(b) < 0 || !a.Stale && b.Stale {
			best = i
		}
	}
	return best
}

// before compares the precedence of sightings.
func (t *Sighting) before(o *Sighting) int {
	return cmp.Or(cmp.Compare(o.Standing.rank(), t.Standing.rank()), t.Since.Compare(o.Since), t.compare(o))
}

// compare orders sightings of equal precedence arbitrarily, but always in the same way.
func (t *Sighting) compare(o *Sighting) int {
	return cmp.Or(bytes.Compare(t.SourceID[:], o.SourceID[:]), strings.Compare(t.Page, o.Page),
		bytes.Compare(t.Of[:], o.Of[:]))
}

func (c *combiner) details(i int) *Details { return &c.sightings[i].Details }

// gave records that a sighting gave a field, or a part of it.
func (c *combiner) gave(field Field, i int) {
	if !slices.Contains(c.out.given[field], i) {
		c.out.given[field] = append(c.out.given[field], i)
	}
}

// text returns the first text that is not empty.
func (c *combiner) text(field Field, of func(*Details) string) string {
	for _, i := range c.live {
		if text := of(c.details(i)); text != "" {
			c.gave(field, i)
			return text
		}
	}
	return ""
}

func (c *combiner) words() {
	d := &c.out.Details
	d.Title = c.text(FieldTitle, func(d *Details) string { return d.Title })
	d.ShortDescription = c.text(FieldShortDescription, func(d *Details) string { return d.ShortDescription })
	if i, ok := c.most(func(i int) int { return visible(c.details(i).Description) }); ok {
		d.Description = c.details(i).Description
		c.gave(FieldDescription, i)
	}
}

// most returns the sighting with the highest count above 0: of all except posts, else of posts.
func (c *combiner) most(of func(i int) int) (who int, ok bool) {
	for _, posts := range []bool{false, true} {
		most := 0
		for _, i := range c.live {
			if n := of(i); (c.sightings[i].Standing.rank() == FromPost) == posts && n > most {
				who, most = i, n
			}
		}
		if most > 0 {
			return who, true
		}
	}
	return 0, false
}

// visible returns the number of letters and digits of HTML that a reader sees.
func visible(html string) int {
	n, tag := 0, false
	for _, r := range html {
		switch {
		case r == '<':
			tag = true
		case r == '>':
			tag = false
		case !tag && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			n++
		}
	}
	return n
}

func (c *combiner) organizer() {
	var o *Organizer
	for _, i := range c.live {
		other := c.details(i).Organizer
		if other == nil || o != nil && !sameName(o.Name, other.Name) {
			continue
		}
		if o == nil {
			o = &Organizer{Name: other.Name}
			c.gave(FieldOrganizer, i)
		}
		if o.URL == "" && other.URL != "" || o.Contact == "" && other.Contact != "" {
			c.gave(FieldOrganizer, i)
		}
		o.URL, o.Contact = cmp.Or(o.URL, other.URL), cmp.Or(o.Contact, other.Contact)
	}
	c.out.Details.Organizer = o
}

// capacity takes numbers from the first sighting that has them. Only the very first may set Unlimited.
func (c *combiner) capacity() {
	var whole *Capacity
	for _, i := range c.live {
		other := c.details(i).Capacity
		if other == nil {
			continue
		}
		if whole == nil {
			copied := *other
			whole = &copied
			c.gave(FieldCapacity, i)
			continue
		}
		if whole.Unlimited {
			break
		}
		if whole.Total == nil && other.Total != nil || whole.Available == nil && other.Available != nil {
			whole.Total, whole.Available = cmp.Or(whole.Total, other.Total), cmp.Or(whole.Available, other.Available)
			c.gave(FieldCapacity, i)
		}
	}
	c.out.Details.Capacity = whole
}

// images takes all images from one sighting: a listing's picture is mostly a smaller copy.
func (c *combiner) images() {
	i, ok := c.most(func(i int) int {
		n := len(c.details(i).SupportingImages)
		if c.details(i).PrimaryImage != "" {
			n++
		}
		return n
	})
	if ok {
		c.out.Details.PrimaryImage, c.out.Details.SupportingImages = c.details(i).PrimaryImage, c.details(i).SupportingImages
		c.gave(FieldImage, i)
	}
}

func (c *combiner) links() {
	d := &c.out.Details
	d.PrimaryURL = c.text(FieldURL, func(d *Details) string { return d.PrimaryURL })
	if len(c.live) == 1 {
		d.URLs = c.details(c.live[0]).URLs
		return
	}
	seen := map[string]bool{}
	for _, i := range c.live {
		for _, link := range c.details(i).URLs {
			if !seen[link] && len(d.URLs) < maxLinks {
				seen[link] = true
				d.URLs = append(d.URLs, link)
				c.gave(FieldURL, i)
			}
		}
	}
}

// published takes the earliest time of publication.
func (c *combiner) published() {
	for _, i := range c.all {
		at := c.sightings[i].PublishedAt
		if at != nil && (c.out.PublishedAt == nil || at.Before(*c.out.PublishedAt)) {
			c.out.PublishedAt = at
			c.out.given[FieldPublished] = []int{i}
		}
	}
}
