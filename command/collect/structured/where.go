package structured

import (
	"strings"

	"carillon/aggregates/happening"
	"carillon/command/collect/markup"
	"carillon/command/collect/place"
	"carillon/command/collect/timing"
)

// whereabouts is what an event says about its place.
type whereabouts struct {
	venue   string
	address place.Address
	// addressText is an address that came as text.
	addressText string
	geo         *happening.Coordinates
	// online is a link, platform a name; isOnline says that there is an
	// online part even if neither is known.
	online   string
	platform string
	isOnline bool
	hours    timing.Hours
}

// where reads the event's location, which may be several: of places the first
// counts, and an online one goes with it.
func (m *mapper) where(it *item) whereabouts {
	w := whereabouts{hours: timing.Hours{}}
	for _, v := range it.props["location"] {
		switch t := m.graph.target(v); {
		case t == nil:
			w.text(m, v.text)
		case t.is("VirtualLocation"):
			w.virtual(m, t)
		default:
			w.place(m, t)
		}
	}
	if len(it.props["location"]) == 0 {
		w.inherit(m, it)
	}
	for _, mode := range m.names(it, "eventAttendanceMode") {
		w.isOnline = w.isOnline || strings.HasPrefix(mode, "online") || strings.HasPrefix(mode, "mixed")
	}
	for _, status := range m.names(it, "eventStatus") {
		w.isOnline = w.isOnline || strings.HasSuffix(status, "movedonline")
	}
	w.opening(m, it)
	return w
}

// inherit takes the place of an event that names none from the event it is part
// of, or from the place that lists it.
func (w *whereabouts) inherit(m *mapper, it *item) {
	wholes := m.graph.things(it, "superEvent")
	if it.around != nil && it.around.isEvent() {
		wholes = append(wholes, it.around)
	}
	for _, whole := range wholes {
		for _, t := range m.graph.things(whole, "location") {
			w.place(m, t)
		}
	}
	if it.around != nil && (it.within == "event" || it.within == "events") && it.around.isPlace() {
		w.place(m, it.around)
	}
}

// placeTypes are the endings of the names of places that hold events.
var placeTypes = []string{"place", "venue", "theater", "museum", "gallery", "attraction", "stadium", "library", "building", "structure"}

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

// onlineWords are what publishers write in the place of a venue.
var onlineWords = map[string]bool{
	"online": true, "virtual": true, "zoom": true, "webinar": true, "livestream": true, "live stream": true,
	"online event": true, "virtual event": true, "internet": true, "en ligne": true, "en línea": true, "digital": true,
	"microsoft teams": true, "google meet": true, "youtube": true, "via zoom": true,
}

// noPlatforms are those of them that name no platform.
var noPlatforms = map[string]bool{
	"online": true, "virtual": true, "webinar": true, "livestream": true, "live stream": true, "online event": true,
	"virtual event": true, "internet": true, "en ligne": true, "en línea": true, "digital": true,
}

// text reads a location that is a mere text: a link, a venue or an address.
func (w *whereabouts) text(m *mapper, text string) {
	if lower := strings.ToLower(text); strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://") {
		w.isOnline = true
		w.online = first(w.online, m.link(text))
		return
	}
	text = markup.Plain(text)
	switch {
	case text == "" || w.known():
	case onlineWords[strings.ToLower(text)]:
		w.isOnline = true
		if !noPlatforms[strings.ToLower(text)] {
			w.platform = first(w.platform, text)
		}
	case strings.Contains(text, ","):
		w.addressText, w.address = text, place.ParseAddress(text)
	default:
		w.venue = text
		w.address = place.ParseAddress(text)
		w.address.Street = ""
	}
}

func (w *whereabouts) known() bool {
	return w.venue != "" || w.addressText != "" || !w.address.IsZero() || w.geo != nil
}

func (w *whereabouts) virtual(m *mapper, t *item) {
	w.isOnline = true
	for _, prop := range []string{"url", "sameAs"} {
		for _, ref := range m.refs(t, prop) {
			w.online = first(w.online, m.link(ref))
		}
	}
	if name := m.graph.plain(t, "name"); !noPlatforms[strings.ToLower(name)] {
		w.platform = first(w.platform, name)
	}
}

// place reads a Place, or a PostalAddress in its place.
func (w *whereabouts) place(m *mapper, t *item) {
	name := m.graph.plain(t, "name")
	if onlineWords[strings.ToLower(name)] {
		w.virtual(m, t)
		return
	}
	if w.known() {
		return
	}
	w.venue = name
	if t.is("PostalAddress") {
		w.postal(m, t)
	}
	for _, v := range t.props["address"] {
		if a := m.graph.target(v); a != nil {
			w.postal(m, a)
		} else if w.address.IsZero() {
			w.addressText = markup.Plain(v.text)
			w.address = place.ParseAddress(w.addressText)
		}
	}
	for _, g := range append(m.graph.things(t, "geo"), t) {
		if w.geo == nil {
			w.geo = place.Coordinates(g.one("latitude"), g.one("longitude"))
		}
	}
	w.opening(m, t)
}

func (w *whereabouts) postal(m *mapper, a *item) {
	if !w.address.IsZero() {
		return
	}
	w.address = place.Address{
		Street:     m.graph.plain(a, "streetAddress"),
		Locality:   m.graph.plain(a, "addressLocality"),
		Region:     m.graph.plain(a, "addressRegion"),
		PostalCode: m.graph.plain(a, "postalCode"),
		Country:    m.graph.plain(a, "addressCountry"),
	}
	w.venue = first(w.venue, m.graph.plain(a, "name"))
}

// opening reads opening hours, of the event or of its place.
func (w *whereabouts) opening(m *mapper, t *item) {
	for _, text := range t.raw("openingHours") {
		w.hours.AddText(text)
	}
	for _, spec := range m.graph.things(t, "openingHoursSpecification") {
		opens, closes := clock(spec.one("opens")), clock(spec.one("closes"))
		// Special hours for some dates don't stand for the others.
		if opens == nil || closes == nil || spec.one("validFrom") != "" || spec.one("validThrough") != "" || *opens == 0 && *closes == 0 {
			continue
		}
		for _, text := range spec.each("dayOfWeek") {
			if d, ok := timing.ParseWeekday(text); ok {
				w.hours.Add(d.Day, *opens, *closes)
			}
		}
	}
}

// location is the place as it is shown; nil if nothing is known. Where an event
// is online and says not where, the fallbacks are the links to go by.
func (w *whereabouts) location(fallbacks ...string) *happening.Location {
	if !w.known() && !w.isOnline {
		return nil
	}
	address := first(w.addressText, w.address.String())
	l := &happening.Location{Coordinates: w.geo, DisplayAddress: address}
	if w.venue != "" {
		l.Venue = &happening.Venue{Name: w.venue, Address: address}
		if !strings.Contains(strings.ToLower(address), strings.ToLower(w.venue)) {
			l.DisplayAddress = w.venue
			if address != "" {
				l.DisplayAddress += ", " + address
			}
		}
	}
	if w.isOnline {
		link := first(append([]string{w.online}, fallbacks...)...)
		l.Online = &happening.Online{Platform: first(w.platform, place.Platform(link)), URL: link}
		if l.DisplayAddress == "" {
			l.DisplayAddress = "Online"
		}
	}
	return l
}

func (w *whereabouts) geoLocations() []happening.GeoLocation {
	return place.GeoLocations(w.venue, w.address, w.geo)
}

func (w *whereabouts) zones(home string) (zones []string, sure bool) {
	if !w.known() {
		return nil, false
	}
	return place.Zones(w.address, w.geo, home)
}
