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

// Telling is what somebody says of a happening: one page of a source, or a source as a whole.
type Telling struct {
	SourceID uuid.UUID
	// Page tells pages of one source apart; it is empty for a source as a whole.
	Page string
	// Of is the happening that it was told as, where that was merged into the one at hand.
	Of       uuid.UUID
	Standing Standing
	Details  Details
	Source   Block
	// PublishedAt is when the source first published it, if it says so.
	PublishedAt *time.Time
	Origins     []Origin
	// Keys are its strong evidence of identity.
	Keys []string
	// Version is that of the source, see [Observed].
	Version int
	// Stale: it was told once and is not on show any more. Then it counts for two things only: that the happening was
	// said to be off, and for everything where nobody has it on show.
	Stale bool
	// Since is when it was first told of the happening here.
	Since time.Time
	// DatedAt is since when the dates and statuses are told as they are. Other changes don't move it, nor does telling
	// the same again.
	DatedAt time.Time
}

// Combined is a happening as all who tell of it tell it together.
type Combined struct {
	Details     Details
	Source      Block
	PublishedAt *time.Time
	// Standing is the highest of those who tell.
	Standing Standing
	// Origins are those of the fields that were given, as far as the tellings have any.
	Origins []Origin

	given map[Field][]int // nil where there is one telling
}

// GivenBy says which of the tellings, by index, gave a field. A field of several parts may have several.
func (c *Combined) GivenBy(field Field) []int {
	if c.given == nil {
		return []int{0}
	}
	return c.given[field]
}

const (
	// maxLinks bounds the links of a combined happening, as collectors do for one page.
	maxLinks = 40
	// maxCombined bounds its occurrences, for the same reason: it has to fit into an event.
	maxCombined = 1000
)

// Combine puts together what several tell of one happening. The order of the tellings means nothing, telling something
// twice changes nothing, and one telling alone comes back as it is.
//
// The rules, by field:
//
//   - Who stands higher is heard first: the platform's own record, then the happening's own page, then a listing, then a
//     post. Of equals, who told of the happening first. What the first one lacks the others complete, part by part.
//   - Dates and statuses go by standing too, but of equals the newest is heard first. Instances are united, see dates.
//   - The description is the fullest. A post's counts only where nobody else has one.
//   - The images are those of the one who has most.
//   - A place is completed only by those who mean the same one.
//   - Links are those of all.
func Combine(tellings []Telling) Combined {
	switch len(tellings) {
	case 0:
		return Combined{}
	case 1:
		t := &tellings[0]
		return Combined{
			Details:     t.Details,
			Source:      t.Source,
			PublishedAt: t.PublishedAt,
			Standing:    t.Standing,
			Origins:     t.Origins,
		}
	}
	c := combiner{tellings: tellings, out: Combined{given: map[Field][]int{}}}
	for i := range tellings {
		c.all = append(c.all, i)
	}
	slices.SortFunc(c.all, func(i, j int) int { return tellings[i].before(&tellings[j]) })
	c.live = slices.DeleteFunc(slices.Clone(c.all), func(i int) bool { return tellings[i].Stale })
	if len(c.live) == 0 {
		c.live = c.all
	}
	best := &tellings[c.live[0]]
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
			c.out.Origins = AddOrigins(c.out.Origins, only(tellings[i].Origins, field)...)
		}
	}
	return c.out
}

// combiner works on one happening.
type combiner struct {
	tellings []Telling
	all      []int // in the order in which they are heard
	live     []int // those of them that are on show or, where none is, all
	out      Combined
}

// Best is the index of the one who is heard first: of those who have it on show or, where none has, of all. There must
// be one.
func Best(tellings []Telling) int {
	best := 0
	for i := range tellings {
		a, b := &tellings[i], &tellings[best]
		if a.Stale == b.Stale && a.before(b) < 0 || !a.Stale && b.Stale {
			best = i
		}
	}
	return best
}

// before is the order in which tellings are heard.
func (t *Telling) before(o *Telling) int {
	return cmp.Or(cmp.Compare(o.Standing.rank(), t.Standing.rank()), t.Since.Compare(o.Since), t.compare(o))
}

// compare is an order without meaning.
func (t *Telling) compare(o *Telling) int {
	return cmp.Or(bytes.Compare(t.SourceID[:], o.SourceID[:]), strings.Compare(t.Page, o.Page),
		bytes.Compare(t.Of[:], o.Of[:]))
}

func (c *combiner) details(i int) *Details { return &c.tellings[i].Details }

// gave notes that a telling gave a field, or a part of it.
func (c *combiner) gave(field Field, i int) {
	if !slices.Contains(c.out.given[field], i) {
		c.out.given[field] = append(c.out.given[field], i)
	}
}

// text is the first text that is not empty.
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

// most is the telling with the most of something, where any has some: of all but posts, else of posts.
func (c *combiner) most(of func(i int) int) (who int, ok bool) {
	for _, posts := range []bool{false, true} {
		most := 0
		for _, i := range c.live {
			if n := of(i); (c.tellings[i].Standing == FromPost) == posts && n > most {
				who, most = i, n
			}
		}
		if most > 0 {
			return who, true
		}
	}
	return 0, false
}

// visible counts the letters and digits of HTML that a reader sees.
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

// capacity takes numbers from the first that has them. That there is no limit only the first one may say.
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

// images are taken together: a listing's picture is mostly a smaller one of the same.
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

// published is the first time that anybody published it.
func (c *combiner) published() {
	for _, i := range c.all {
		at := c.tellings[i].PublishedAt
		if at != nil && (c.out.PublishedAt == nil || at.Before(*c.out.PublishedAt)) {
			c.out.PublishedAt = at
			c.out.given[FieldPublished] = []int{i}
		}
	}
}
