package timing

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Clues are a source's hints at the zone of a happening.
type Clues struct {
	// Stated is the zone that the source names for the happening.
	Stated string
	// Place lists the zones of the place, the likeliest first. PlaceSure marks the first one as certain.
	Place     []string
	PlaceSure bool
	// Home is the zone in the source's settings.
	Home string
	// Start has an optional offset.
	Start Stamp
}

// Resolve returns the zone of a happening: the stated one; else one with the offset, of the place before the source's;
// else the place's if that is certain, else the source's. assumed reports that it is UTC, or the likeliest zone of an
// uncertain place, for lack of clues.
func Resolve(c Clues) (loc *time.Location, assumed bool) {
	if loc, _ := FindZone(c.Stated); loc != nil {
		return loc, false
	}
	places := make([]*time.Location, 0, len(c.Place))
	for _, name := range c.Place {
		if loc := LoadZone(name); loc != nil {
			places = append(places, loc)
		}
	}
	home := LoadZone(c.Home)
	if c.Start.HasTime && c.Start.HasOffset && !c.Start.IsUTC() {
		if loc := byOffset(c.Start, places, home); loc != nil {
			return loc, false
		}
	}
	switch {
	case home != nil && slices.ContainsFunc(places, func(p *time.Location) bool { return p.String() == home.String() }):
		return home, false
	case c.PlaceSure && len(places) > 0:
		return places[0], false
	case home != nil:
		return home, false
	case c.Start.HasTime && c.Start.HasOffset && !c.Start.IsUTC():
		return fixed(c.Start.Offset), false
	case len(places) > 0:
		return places[0], true
	}
	return time.UTC, !c.Start.HasOffset
}

// byOffset returns a zone with the stamp's offset at its instant.
func byOffset(s Stamp, places []*time.Location, home *time.Location) *time.Location {
	agrees := func(loc *time.Location) bool {
		_, offset := s.In(loc).Zone()
		return offset == s.Offset
	}
	atHome := home != nil && agrees(home)
	for _, p := range places {
		if atHome && p.String() == home.String() {
			return home
		}
	}
	for _, p := range places {
		if agrees(p) {
			return p
		}
	}
	switch {
	case len(places) > 0:
		return nil // the place is known and the offset wrong
	case atHome:
		return home
	}
	return fixed(s.Offset)
}

// halfHours are zones for offsets without an Etc/GMT±n name.
var halfHours = map[int]string{
	12600: "Asia/Tehran", 16200: "Asia/Kabul", 19800: "Asia/Kolkata", 20700: "Asia/Kathmandu",
	23400: "Asia/Yangon", 34200: "Australia/Darwin", 37800: "Australia/Adelaide", 45900: "Pacific/Chatham",
	-12600: "America/St_Johns", -9000: "America/St_Johns", -34200: "Pacific/Marquesas",
}

// fixed returns an IANA zone for an offset without a place.
func fixed(offset int) *time.Location {
	name := halfHours[offset]
	if offset%3600 == 0 {
		// The signs of these zones are reversed, as in POSIX.
		name = fmt.Sprintf("Etc/GMT%+d", -offset/3600)
	}
	if loc := LoadZone(name); loc != nil {
		return loc
	}
	return time.UTC
}

// loaded caches the zones: calendars need one for each event, and loading one takes as long as reading fifty lines.
// There are some six hundred.
var loaded sync.Map

// LoadZone returns a zone by its IANA name; nil for an unknown name.
func LoadZone(name string) *time.Location {
	name = strings.TrimSpace(name)
	if known, ok := loaded.Load(name); ok {
		loc, _ := known.(*time.Location)
		return loc
	}
	// LoadLocation takes "Local" for the machine's zone, which no source means.
	if name == "" || name == "Local" {
		return nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	loaded.Store(name, loc)
	return loc
}
