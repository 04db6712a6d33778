package candidate

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/place"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// Where is the place of an event.
type Where struct {
	Venue string
	// Within names the places that contain the venue, as a house contains a room, the nearest first. Optional.
	Within  []string
	Address place.Address
	// AddressText is an address in text.
	AddressText string
	Geo         *happening.Coordinates
	// Online is a link, Platform a name; IsOnline marks an online part even if neither is known.
	Online   string
	Platform string
	IsOnline bool
	// Hours are opening hours, for events of weeks.
	Hours timing.Hours
}

// onlineWords are words in place of a venue. true marks those that name a platform.
var onlineWords = map[string]bool{
	"online": false, "virtual": false, "webinar": false, "livestream": false, "live stream": false,
	"online event": false, "virtual event": false, "internet": false, "en ligne": false, "en línea": false,
	"digital": false, "zoom": true, "microsoft teams": true, "google meet": true, "youtube": true, "via zoom": true,
}

// noPlaces are words of programs and people for a place that is not known or not set.
var noPlaces = map[string]bool{
	"null": true, "none": true, "undefined": true, "nan": true, "n/a": true, "na": true, "-": true, "--": true, "?": true,
	"no location": true, "no location set": true, "no venue": true, "no place": true, "not set": true, "unknown": true,
	"location": true, "venue": true, "tba": true, "tbd": true, "tbc": true, "to be announced": true,
	"to be confirmed": true, "to be determined": true, "kein ort": true, "ort folgt": true, "à confirmer": true,
	"wird noch bekannt gegeben": true, "à définir": true, "lieu à définir": true, "por confirmar": true, "por definir": true,
	"a definir": true, "da definire": true, "da confermare": true, "nog niet bekend": true, "volgt": true,
}

// IsNoPlace reports whether a name in place of a venue means that there is none.
func IsNoPlace(name string) bool { return noPlaces[strings.ToLower(strings.TrimSpace(name))] }

// meeting matches the address of a meeting in a location, with the words before it.
var meeting = regexp.MustCompile(`(?i)\s*(?:[:;,|@-]|\bat\b)?\s*<?(https?://[^\s<>"]+)>?\s*`)

// IsOnlineWord reports whether a name in place of a venue means the online part.
func IsOnlineWord(name string) bool {
	_, is := onlineWords[strings.ToLower(name)]
	return is
}

// Text parses a location in text: a link, a venue or an address. link returns a displayable link, "" for other texts.
func (w *Where) Text(text string, link func(string) string) {
	if lower := strings.ToLower(text); strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://") {
		w.IsOnline = true
		w.Online = cmp.Or(w.Online, link(text))
		return
	}
	if strings.Contains(text, "://") {
		text = w.meeting(text, link)
	}
	text = markup.Plain(text)
	switch {
	case text == "" || w.Known() || IsNoPlace(text):
	case IsOnlineWord(text):
		w.IsOnline = true
		w.OnPlatform(text)
	case strings.Contains(text, ","):
		w.AddressText, w.Address = text, place.ParseAddress(text)
	default:
		w.Venue = text
		w.Address = place.ParseAddress(text)
		w.Address.Street = ""
	}
}

// meeting sets the online part if a text has the address of a meeting, and returns the rest of the text.
func (w *Where) meeting(text string, link func(string) string) string {
	m := meeting.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	platform, known := place.KnownPlatform(m[1])
	if !known {
		return text
	}
	w.IsOnline = true
	w.Online = cmp.Or(w.Online, link(m[1]))
	rest := strings.TrimSpace(strings.Replace(text, m[0], " ", 1))
	if strings.Contains(strings.ToLower(rest), strings.ToLower(platform)) || IsOnlineWord(rest) {
		return "" // "Zoom meeting: https://…"
	}
	return rest
}

// OnPlatform sets the platform, unless the name means just "online" or one is known.
func (w *Where) OnPlatform(name string) {
	if isPlatform, isWord := onlineWords[strings.ToLower(name)]; isPlatform || !isWord {
		w.Platform = cmp.Or(w.Platform, name)
	}
}

// Known reports whether a physical place is known.
func (w *Where) Known() bool {
	return w.Venue != "" || w.AddressText != "" || !w.Address.IsZero() || w.Geo != nil
}

// location returns the displayed place; nil if it is unknown. The fallbacks are links for an online event without one.
func (w *Where) location(fallbacks ...string) *happening.Location {
	if !w.Known() && !w.IsOnline {
		return nil
	}
	address := w.fullAddress()
	l := &happening.Location{Coordinates: w.Geo, DisplayAddress: address}
	if w.Venue != "" {
		l.Venue = &happening.Venue{Name: w.Venue, Address: address}
		if !strings.Contains(" "+identity.Words(address)+" ", " "+identity.Words(w.Venue)+" ") {
			l.DisplayAddress = w.Venue
			if address != "" {
				l.DisplayAddress += ", " + address
			}
		}
	}
	if w.IsOnline {
		link := cmp.Or(append([]string{w.Online}, fallbacks...)...)
		l.Online = &happening.Online{Platform: cmp.Or(w.Platform, place.Platform(link)), URL: link}
		if l.DisplayAddress == "" {
			l.DisplayAddress = "Online"
		}
	}
	return l
}

// fullAddress returns the address after the names of the containing places, unless it has them.
func (w *Where) fullAddress() string {
	address := cmp.Or(w.AddressText, w.Address.String())
	for _, name := range slices.Backward(w.Within) {
		known := " " + identity.Words(w.Venue) + " " + identity.Words(address) + " "
		if words := identity.Words(name); words == "" || strings.Contains(known, " "+words+" ") {
			continue
		}
		if address = name + ", " + address; strings.HasSuffix(address, ", ") {
			address = name
		}
	}
	return address
}

func (w *Where) geoLocations() []happening.GeoLocation {
	return place.GeoLocations(w.Venue, w.Address, w.Geo)
}

func (w *Where) zones(home string) (zones []string, sure bool) {
	if !w.Known() {
		return nil, false
	}
	return place.Zones(w.Address, w.Geo, home)
}

// complete takes over missing parts, and returns the fields that they belong to.
func (w *Where) complete(other *Where) (took []collect.Field) {
	if w.Venue == "" && other.Venue != "" {
		w.Venue, took = other.Venue, append(took, collect.FieldLocation)
	}
	if len(w.Within) == 0 && len(other.Within) > 0 && w.Venue == other.Venue {
		w.Within, took = other.Within, append(took, collect.FieldLocation)
	}
	if parts(other.Address) > parts(w.Address) {
		// The parts are more precise than a text that was split into some of them.
		w.Address, w.AddressText, took = other.Address, other.AddressText, append(took, collect.FieldLocation)
	}
	if w.AddressText == "" && w.Address.IsZero() && other.AddressText != "" {
		w.AddressText, took = other.AddressText, append(took, collect.FieldLocation)
	}
	if w.Geo == nil && other.Geo != nil {
		w.Geo, took = other.Geo, append(took, collect.FieldCoordinates)
	}
	if other.IsOnline {
		if !w.IsOnline {
			took = append(took, collect.FieldOnline)
		}
		w.IsOnline = true
		w.Online, w.Platform = cmp.Or(w.Online, other.Online), cmp.Or(w.Platform, other.Platform)
	}
	if len(w.Hours) == 0 {
		w.Hours = other.Hours
	}
	return took
}

// parts counts the known parts of an address.
func parts(a place.Address) int {
	n := 0
	for _, part := range []string{a.Street, a.Locality, a.Region, a.PostalCode, a.Country} {
		if part != "" {
			n++
		}
	}
	return n
}
