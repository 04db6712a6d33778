package structured

import (
	"slices"
	"strconv"
	"strings"

	"carillon/aggregates/happening"
)

// capacity reads the numbers of places. Sold out means none are left, if it is
// said of the event or of each of its offers. Nothing said is nothing known:
// never "unlimited".
func (m *mapper) capacity(it *item, soldOut bool) *happening.Capacity {
	c := happening.Capacity{
		Total:     count(it.one("maximumAttendeeCapacity")),
		Available: count(it.one("remainingAttendeeCapacity")),
	}
	inventory, offers, out := 0, 0, 0
	counted := false
	for _, offer := range m.graph.things(it, "offers") {
		offers++
		level := offer.one("inventoryLevel")
		if n := count(level); n != nil {
			inventory, counted = inventory+*n, true
		}
		if slices.Contains(m.names(offer, "availability"), "soldout") {
			out++
		}
	}
	if c.Total == nil {
		c.Total = sum(count(it.one("maximumPhysicalAttendeeCapacity")), count(it.one("maximumVirtualAttendeeCapacity")))
	}
	if c.Available == nil && counted {
		c.Available = &inventory
	}
	if soldOut || offers > 0 && out == offers {
		c.Available = new(int)
	}
	if c.Total == nil && c.Available == nil {
		return nil
	}
	return &c
}

// count reads a number of places, nil for none.
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
		return firstOf(a, b)
	}
	total := *a + *b
	return &total
}

func firstOf(a, b *int) *int {
	if a != nil {
		return a
	}
	return b
}

// organizer is the first organizer that has a name.
func (m *mapper) organizer(it *item) *happening.Organizer {
	for _, v := range it.props["organizer"] {
		t := m.graph.target(v)
		if t == nil {
			if name := (&item{props: map[string][]value{"name": {v}}}); m.resolve(v.text) == nil || !strings.Contains(v.text, "://") {
				if text := m.graph.plain(name, "name"); text != "" {
					return &happening.Organizer{Name: text}
				}
			}
			continue
		}
		o := happening.Organizer{Name: m.graph.plain(t, "name")}
		if o.Name == "" {
			continue
		}
		for _, ref := range append(m.refs(t, "url"), m.refs(t, "sameAs")...) {
			o.URL = first(o.URL, m.link(ref))
		}
		for _, holder := range append([]*item{t}, m.graph.things(t, "contactPoint")...) {
			o.Contact = first(o.Contact, contact(holder.one("email")), contact(holder.one("telephone")))
		}
		return &o
	}
	return nil
}

// contact is an e-mail address or a telephone number as it is shown.
func contact(text string) string {
	lower := strings.ToLower(text)
	for _, scheme := range []string{"mailto:", "tel:"} {
		if strings.HasPrefix(lower, scheme) {
			return text[len(scheme):]
		}
	}
	return text
}

// images gives the first picture and the others.
func (m *mapper) images(it *item) (primary string, supporting []string) {
	var all []string
	for _, prop := range []string{"image", "photo", "thumbnailUrl"} {
		for _, v := range it.props[prop] {
			refs := []string{v.text}
			if t := m.graph.target(v); t != nil {
				refs = []string{first(t.one("url"), t.one("contentUrl"), t.one("thumbnailUrl"), t.id)}
			}
			for _, ref := range refs {
				if link := m.picture(ref); link != "" && !slices.Contains(all, link) {
					all = append(all, link)
				}
			}
		}
		if len(all) > 0 {
			return all[0], all[1:]
		}
	}
	return "", nil
}
