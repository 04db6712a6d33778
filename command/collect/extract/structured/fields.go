package structured

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/identity"
)

// capacity reads the numbers of places. Sold out means none are left, if the event or each of its offers is. Without a
// statement the capacity is unknown, never unlimited.
func (m *mapper) capacity(event *candidate.Candidate, it *item) {
	c := happening.Capacity{
		Total:     count(it.one("maximumAttendeeCapacity")),
		Available: count(it.one("remainingAttendeeCapacity")),
	}
	inventory, offers, out := 0, 0, 0
	counted := false
	for _, offer := range m.eachOffer(it) {
		offers++
		level := offer.one("inventoryLevel")
		if n := count(level); n != nil {
			inventory, counted = inventory+*n, true
		}
		if slices.ContainsFunc(m.names(offer, "availability"), isOut) ||
			identity.ReadRemark(offer.one("availability")).SoldOut {
			out++
		}
	}
	if c.Total == nil {
		c.Total = sum(count(it.one("maximumPhysicalAttendeeCapacity")), count(it.one("maximumVirtualAttendeeCapacity")))
	}
	if c.Available == nil && counted {
		c.Available = &inventory
	}
	if offers > 0 && out == offers {
		c.Available = new(int)
	}
	if c.Total == nil && c.Available == nil {
		return
	}
	event.Capacity = &c
	m.says(event, collect.FieldCapacity, it, "maximumAttendeeCapacity", "remainingAttendeeCapacity",
		"maximumPhysicalAttendeeCapacity", "maximumVirtualAttendeeCapacity")
	if c.Available != nil && offers > 0 {
		for _, offer := range m.things(it, "offers")[:1] {
			m.says(event, collect.FieldCapacity, offer, firstKnown(offer, "inventoryLevel", "availability")...)
		}
	}
}

// isOut reports whether an availability means that nothing is left.
func isOut(name string) bool { return name == "soldout" || name == "outofstock" }

// eachOffer returns the offers of an event, those of a list in place of the list.
func (m *mapper) eachOffer(it *item) []*item {
	var all []*item
	for _, offer := range m.things(it, "offers") {
		if each := m.things(offer, "offers"); len(each) > 0 {
			all = append(all, each...)
		} else {
			all = append(all, offer)
		}
	}
	return all
}

// count parses a number of places, nil for other texts.
func count(text string) *int {
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), ",", ""), 64)
	if err != nil || n < 0 || n > 1e8 {
		return nil
	}
	i := int(n)
	return &i
}

func sum(a, b *int) *int {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	total := *a + *b
	return &total
}

// organizer sets the first organizer with a name.
func (m *mapper) organizer(c *candidate.Candidate, it *item) {
	for _, v := range it.values("organizer") {
		if c.Organizer = m.organizerOf(v); c.Organizer != nil {
			m.says(c, collect.FieldOrganizer, it, "organizer")
			return
		}
	}
}

func (m *mapper) organizerOf(v value) *happening.Organizer {
	t := m.target(v)
	if t == nil {
		name := m.line(v.text)
		if name == "" || strings.Contains(v.text, "://") && m.resolve(v.text) != nil {
			return nil
		}
		return &happening.Organizer{Name: name}
	}
	o := happening.Organizer{Name: m.plain(t, "name")}
	if o.Name == "" {
		return nil
	}
	for _, ref := range append(m.refs(t, "url"), m.refs(t, "sameAs")...) {
		o.URL = cmp.Or(o.URL, m.link(ref))
	}
	for _, holder := range append([]*item{t}, m.things(t, "contactPoint")...) {
		o.Contact = cmp.Or(o.Contact, contact(holder.one("email")), contact(holder.one("telephone")))
	}
	return &o
}

// contact returns an e-mail address or a telephone number for display.
func contact(text string) string {
	lower := strings.ToLower(text)
	for _, scheme := range []string{"mailto:", "tel:"} {
		if strings.HasPrefix(lower, scheme) {
			return text[len(scheme):]
		}
	}
	return text
}

// maxImages limits the pictures of an event.
const maxImages = 40

// images sets the pictures in order.
func (m *mapper) images(c *candidate.Candidate, it *item) {
	for _, prop := range []string{"image", "photo", "thumbnailUrl"} {
		for _, v := range it.values(prop) {
			if len(c.Images) == maxImages || !m.budget.Work(20) {
				break
			}
			ref := v.text
			if t := m.target(v); t != nil {
				ref = cmp.Or(t.one("url"), t.one("contentUrl"), t.one("thumbnailUrl"), t.id)
			}
			if link := m.picture(ref); link != "" && !slices.Contains(c.Images, link) {
				c.Images = append(c.Images, link)
			}
		}
		if len(c.Images) > 0 {
			m.says(c, collect.FieldImage, it, prop)
			return
		}
	}
}
