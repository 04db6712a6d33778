package happening

import (
	"cmp"
	"strings"
	"unicode"
)

// place combines locations. The first sighting with a place gives it; sightings of the same place complete it. The
// online part is independent: an event has either or both.
func (c *combiner) place() {
	var l Location
	var known bool
	first := -1
	for _, i := range c.live {
		other := c.details(i).Location
		if other == nil {
			continue
		}
		known = true
		if other.isPlace() {
			if first < 0 {
				first = i
				l.Venue, l.Coordinates, l.DisplayAddress = other.Venue, other.Coordinates, other.DisplayAddress
				c.gave(FieldLocation, i)
				if l.Coordinates != nil {
					c.gave(FieldCoordinates, i)
				}
			} else if l.agrees(other) {
				c.completePlace(&l, other, i)
			}
		}
		if other.Online != nil {
			c.completeOnline(&l, other.Online, i)
		}
	}
	if !known {
		c.regions(nil)
		return
	}
	if l.DisplayAddress == "" {
		l.DisplayAddress = c.text(FieldLocation, func(d *Details) string {
			if d.Location == nil {
				return ""
			}
			return d.Location.DisplayAddress
		})
	}
	c.out.Details.Location = &l
	c.regions(&l)
}

// isPlace reports whether the location has a physical place.
func (l *Location) isPlace() bool {
	return l.Venue != nil || l.Coordinates != nil || l.DisplayAddress != "" && l.Online == nil
}

// agrees reports whether two locations may be one place: their venues, if any, have similar names.
func (l *Location) agrees(o *Location) bool {
	return l.Venue == nil || o.Venue == nil || sameName(l.Venue.Name, o.Venue.Name)
}

func (c *combiner) completePlace(l, other *Location, i int) {
	switch {
	case other.Venue == nil:
	case l.Venue == nil:
		l.Venue, l.DisplayAddress = other.Venue, cmp.Or(other.DisplayAddress, l.DisplayAddress)
		c.gave(FieldLocation, i)
	case l.Venue.Address == "" && other.Venue.Address != "":
		l.Venue = &Venue{Name: l.Venue.Name, Address: other.Venue.Address}
		l.DisplayAddress = cmp.Or(other.DisplayAddress, l.DisplayAddress)
		c.gave(FieldLocation, i)
	}
	if l.DisplayAddress == "" && other.DisplayAddress != "" {
		l.DisplayAddress = other.DisplayAddress
		c.gave(FieldLocation, i)
	}
	if l.Coordinates == nil && other.Coordinates != nil {
		l.Coordinates = other.Coordinates
		c.gave(FieldCoordinates, i)
	}
}

func (c *combiner) completeOnline(l *Location, other *Online, i int) {
	switch {
	case l.Online == nil:
		l.Online = other
	case l.Online.Platform == "" && other.Platform != "", l.Online.URL == "" && other.URL != "":
		l.Online = &Online{Platform: cmp.Or(l.Online.Platform, other.Platform), URL: cmp.Or(l.Online.URL, other.URL)}
	default:
		return
	}
	c.gave(FieldOnline, i)
}

// regions takes the regions from the sighting with most of them that has the same place.
func (c *combiner) regions(l *Location) {
	most := 0
	for _, i := range c.live {
		d := c.details(i)
		if l != nil && d.Location != nil && !l.agrees(d.Location) {
			continue
		}
		if len(d.GeoLocations) > most {
			most = len(d.GeoLocations)
			c.out.Details.GeoLocations = d.GeoLocations
		}
	}
}

// sameName reports whether two names may mean the same: one has all words of the other.
func sameName(a, b string) bool {
	x, y := plain(a), plain(b)
	return strings.Contains(x, y) || strings.Contains(y, x)
}

// plain returns the words of a name in lower case, each between spaces.
func plain(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	return " " + strings.Join(words, " ") + " "
}
