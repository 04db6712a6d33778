package match_test

import (
	"path/filepath"
	"testing"

	"carillon/command/collect/match"
)

// Two houses under one number are two places.
func TestHousesUnderOneNumber(t *testing.T) {
	t.Parallel()
	var both []labelledEvent
	for _, name := range []string{"a.html", "b.html"} {
		for _, o := range observed(t, filepath.Join("testdata", "houses", name)) {
			both = append(both, bare(o.Details))
		}
	}
	if len(both) != 2 {
		t.Fatalf("%d events, want 2", len(both))
	}
	if v := match.Compare(both[0].Subject, both[1].Subject, match.Nothing); v.Same || v.Reason != match.OtherPlace {
		t.Errorf("got %+v", v)
	}
}

// Events with one title and start under one number are two if their venues have no distinctive word in common.
func TestNamesOfHouses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"Anchor Bar", "Zebra Lounge", false}, {"Bar A", "Bar B", false}, {"Bar 1", "Bar 2", false},
		{"Jazz Bar", "Rock Bar", false},
		{"Anchor Cellar", "Zebra Cellar", false}, {"Bar", "Lounge", false}, {"Café Central", "Restaurant Zum Löwen", false},
		{"Schlossmuseum", "Bar Anton", false}, {"Bar A", "Zebra Lounge", false}, {"Saal 1", "Saal 2", false},
		{"Pub", "Purple Club", false},
		{"Hotel Post", "Gasthof Post", true}, {"Anchor Bar", "The Anchor", true}, {"Room 5", "Big House", true},
		{"Big House, Room 5", "Room 5", true}, {"Kursaal", "Kurhaus Meran", true}, {"VHS", "Volkshochschule", true},
		{"Stadttheater", "Teatro Comunale", true}, {"Foyer", "Stadttheater", true},
		{"Archäologiemuseum", "Museo Archeologico", true}, {"Kulturfabrik", "Lana Kulturfabrik", true},
	} {
		line := func(venue string) labelledEvent {
			return read(t, "2026-12-05T20:00 | "+venue+"; Quince St 5, Berlin | Pub Quiz")
		}
		for _, v := range []match.Verdict{
			match.Compare(line(tt.a).Subject, line(tt.b).Subject, match.Nothing), match.Compare(line(tt.b).Subject,
				line(tt.a).Subject, match.Nothing),
		} {
			if v.Same != tt.same {
				t.Errorf("%s and %s: %+v", tt.a, tt.b, v)
			}
		}
	}
	// The house of a room, if its address names it.
	room := read(t, "2026-12-05T20:00 | Blue Cave; Big House, Quince St 5, Berlin | Pub Quiz")
	house := read(t, "2026-12-05T20:00 | Big House; Quince St 5, Berlin | Pub Quiz")
	if v := match.Compare(room.Subject, house.Subject, match.Nothing); !v.Same {
		t.Errorf("a room and its house: %+v", v)
	}
}
