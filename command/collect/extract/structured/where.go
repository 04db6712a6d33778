package structured

import (
	"cmp"
	"slices"
	"strings"

	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/place"
	"carillon/command/collect/extract/timing"
)

// whereabouts fills the Where of a candidate.
type whereabouts struct {
	*candidate.Where
	*mapper
	c *candidate.Candidate
}

// where reads the event's locations: the first place counts, and an online one is added.
func (m *mapper) where(c *candidate.Candidate, it *item) {
	c.Where.Hours = timing.Hours{}
	w := &whereabouts{Where: &c.Where, mapper: m, c: c}
	for _, v := range it.values("location") {
		switch t := w.target(v); {
		case t == nil:
			w.text(it, v)
		case t.is("VirtualLocation"):
			w.virtual(t)
		default:
			w.place(t)
		}
	}
	if len(it.props["location"]) == 0 {
		w.inherit(it)
	}
	for _, prop := range []string{"eventAttendanceMode", "eventStatus"} {
		for _, name := range m.names(it, prop) {
			if !w.IsOnline && (strings.HasPrefix(name, "online") || strings.HasPrefix(name, "mixed") ||
				strings.HasSuffix(name, "movedonline")) {
				w.IsOnline = true
				m.says(c, collect.FieldOnline, it, prop)
			}
		}
	}
	w.opening(it)
}

// text reads a location in plain text.
func (w *whereabouts) text(it *item, v value) {
	known, online := w.Known(), w.IsOnline
	if !w.budget.Work(1 + len(v.text)/4) {
		return
	}
	w.Text(cut(v.text, maxName), w.link)
	if !known && w.Known() {
		w.c.Says(collect.FieldLocation, it.path()+".location", it.element(v.node), v.text)
	}
	if !online && w.IsOnline {
		w.c.Says(collect.FieldOnline, it.path()+".location", it.element(v.node), v.text)
	}
}

// inherit takes the place of an event without one from the event that it is part of, or from the place that lists it.
func (w *whereabouts) inherit(it *item) {
	wholes := w.things(it, "superEvent")
	if it.around != nil && it.around.isEvent() {
		wholes = append(wholes, it.around)
	}
	for _, whole := range wholes {
		for _, t := range w.things(whole, "location") {
			w.place(t)
		}
	}
	if it.around != nil && (it.within == "event" || it.within == "events") && it.around.isPlace() {
		w.place(it.around)
	}
}

// placeTypes are the endings of the names of place types.
var placeTypes = []string{"place", "venue", "theater", "museum", "gallery", "attraction", "stadium", "library",
	"building", "structure"}

func (it *item) isPlace() bool {
	for _, t := range it.types {
		for _, ending := range placeTypes {
			if strings.HasSuffix(strings.ToLower(t), ending) {
				return true
			}
		}
	}
	return false
}

func (w *whereabouts) virtual(t *item) {
	if !w.IsOnline {
		w.says(w.c, collect.FieldOnline, t, firstKnown(t, "url", "sameAs", "name")...)
	}
	w.IsOnline = true
	for _, prop := range []string{"url", "sameAs"} {
		for _, ref := range w.refs(t, prop) {
			w.Online = cmp.Or(w.Online, w.link(ref))
		}
	}
	w.OnPlatform(w.plain(t, "name"))
}

// place reads a Place, or a PostalAddress instead of one.
func (w *whereabouts) place(t *item) {
	name := w.plain(t, "name")
	if candidate.IsOnlineWord(name) {
		w.virtual(t)
		return
	}
	if strings.Contains(name, "://") {
		w.text(t, value{text: name})
		name = ""
	}
	if w.Known() {
		return
	}
	if candidate.IsNoPlace(name) {
		name = ""
	}
	if w.Venue = name; name != "" {
		w.says(w.c, collect.FieldLocation, t, "name")
	}
	if t.is("PostalAddress") {
		w.postal(t)
	}
	w.addressOf(t)
	w.point(t)
	w.container(t)
	w.opening(t)
}

// addressOf reads the address of a place, unless one is known.
func (w *whereabouts) addressOf(t *item) {
	for _, v := range t.values("address") {
		if a := w.target(v); a != nil {
			w.postal(a)
		} else if w.Address.IsZero() {
			w.AddressText = w.line(v.text)
			w.Address = place.ParseAddress(w.AddressText)
			w.says(w.c, collect.FieldLocation, t, "address")
		}
	}
}

// point reads the coordinates of a place, unless some are known.
func (w *whereabouts) point(t *item) {
	for _, g := range append(w.things(t, "geo"), t) {
		if w.Geo == nil {
			if w.Geo = place.Coordinates(g.one("latitude"), g.one("longitude")); w.Geo != nil {
				w.says(w.c, collect.FieldCoordinates, g, "latitude", "longitude")
			}
		}
	}
}

// maxContainers limits the nested places that are followed.
const maxContainers = 5

// container reads the container of a place: a house, with the address that a room lacks, or a town, which is part of
// an address.
func (w *whereabouts) container(t *item) {
	seen := []*item{t}
	for range maxContainers {
		inner := t
		for _, prop := range []string{"containedInPlace", "containedIn"} {
			for _, v := range inner.values(prop) {
				outer := w.target(v)
				switch {
				case t != inner:
				case outer != nil && !slices.Contains(seen, outer):
					t = outer
				case outer == nil && !strings.Contains(v.text, "://") && w.line(v.text) != "":
					w.Within = append(w.Within, w.line(v.text))
				}
			}
		}
		if t == inner {
			return
		}
		seen = append(seen, t)
		w.surround(t)
	}
}

// surround completes the place from its containers.
func (w *whereabouts) surround(t *item) {
	name := w.plain(t, "name")
	part := w.regionPart(t)
	switch {
	case part != nil && *part == "" && w.AddressText == "":
		*part = name
	case part == nil && w.Venue == "":
		w.Venue = name
	case part == nil && name != "":
		w.Within = append(w.Within, name)
	}
	if name != "" {
		w.says(w.c, collect.FieldLocation, t, "name")
	}
	if w.AddressText == "" {
		inner := w.Address
		w.Address = place.Address{}
		w.addressOf(t)
		if w.Address = inner.Within(w.Address); !inner.IsZero() {
			w.AddressText = ""
		}
	}
	w.point(t)
}

// regionPart returns the part of an address for a town, a state or a country; nil for other types.
func (w *whereabouts) regionPart(t *item) *string {
	switch {
	case t.is("City"):
		return &w.Address.Locality
	case t.is("State"), t.is("AdministrativeArea"):
		return &w.Address.Region
	case t.is("Country"):
		return &w.Address.Country
	}
	return nil
}

func (w *whereabouts) postal(a *item) {
	if !w.Address.IsZero() {
		return
	}
	w.Address = place.Address{
		Street:     w.plain(a, "streetAddress"),
		Locality:   w.plain(a, "addressLocality"),
		Region:     w.plain(a, "addressRegion"),
		PostalCode: w.plain(a, "postalCode"),
		Country:    w.plain(a, "addressCountry"),
	}
	if len(w.Within) == 0 {
		w.Venue = cmp.Or(w.Venue, w.plain(a, "name"))
	}
	w.says(w.c, collect.FieldLocation, a, "streetAddress", "addressLocality", "addressRegion", "postalCode",
		"addressCountry")
}

// opening reads opening hours, of the event or of its place.
func (w *whereabouts) opening(t *item) {
	for _, text := range t.raw("openingHours") {
		w.Hours.AddText(text)
	}
	for _, spec := range w.things(t, "openingHoursSpecification") {
		opens, _ := timeOfDay(spec.one("opens"))
		closes, _ := timeOfDay(spec.one("closes"))
		// Special hours of some dates don't hold for others.
		if opens == nil || closes == nil || spec.one("validFrom") != "" || spec.one("validThrough") != "" ||
			*opens == 0 && *closes == 0 {
			continue
		}
		for _, text := range spec.each("dayOfWeek") {
			if d, ok := timing.ParseWeekday(text); ok {
				w.Hours.Add(d.Day, *opens, *closes)
			}
		}
	}
}

// firstKnown returns the first of the properties that the item has, if it has one.
func firstKnown(it *item, props ...string) []string {
	for i, prop := range props {
		if it.one(prop) != "" {
			return props[i : i+1]
		}
	}
	return nil
}
