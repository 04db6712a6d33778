package match_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect/match"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	rome, _ = time.LoadLocation("Europe/Rome")
	now     = time.Date(2026, 11, 22, 12, 0, 0, 0, rome)
)

// labelledEvent is a line of the labelled set.
type labelledEvent struct {
	scene  string
	event  int
	line   string
	source string // "" for a separate one
	gone   bool
	match.Subject

	details happening.Details
}

func labelled(t *testing.T) []labelledEvent {
	t.Helper()
	file := must.Get(os.Open("testdata/pairs.txt"))(t)
	defer file.Close() //nolint:errcheck // it is only read
	var all []labelledEvent
	var scene string
	event := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "scene "):
			scene = line
		case line == "event":
			event++
		default:
			one := read(t, line)
			one.scene, one.event, one.line = scene, event, line
			all = append(all, one)
		}
	}
	return all
}

func read(t *testing.T, line string) labelledEvent {
	t.Helper()
	parts := strings.Split(line, "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	d := happening.Details{Title: parts[2], Time: happening.Time{Timezone: "Europe/Rome"}}
	for _, when := range strings.Fields(parts[0]) {
		o := happening.Occurrence{Status: happening.Scheduled}
		var err error
		if o.Start, err = time.ParseInLocation("2006-01-02T15:04", when, rome); err != nil {
			o.Start, err = time.ParseInLocation(time.DateOnly, when, rome)
			end := o.Start.AddDate(0, 0, 1)
			o.End, o.AllDay = &end, true
		}
		must.True(t, err == nil, "%s: %v", line, err)
		d.Instances = append(d.Instances, happening.Instance{Occurrences: []happening.Occurrence{o}})
	}
	d.Location = location(t, parts[1])
	one := labelledEvent{}
	var keys []string
	for _, more := range parts[3:] {
		for word := range strings.FieldsSeq(more) {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "keys":
				keys = strings.Split(value, ",")
			case "source":
				one.source = value
			case "gone":
				one.gone = true
			case "image":
				d.PrimaryImage = value
			}
		}
	}
	one.Subject, one.details = match.Of(d, keys, now), d
	return one
}

func location(t *testing.T, text string) *happening.Location {
	t.Helper()
	if link, online := strings.CutPrefix(text, "online "); online {
		return &happening.Location{Online: &happening.Online{URL: link}, DisplayAddress: "Online"}
	}
	if text == "" {
		return nil
	}
	parts := append(strings.Split(text, ";"), "", "")
	venue, address, point := strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2])
	l := &happening.Location{DisplayAddress: address}
	if venue != "" {
		l.Venue = &happening.Venue{Name: venue, Address: address}
		l.DisplayAddress = strings.Trim(venue+", "+address, ", ")
	}
	if point != "" {
		l.Coordinates = &happening.Coordinates{}
		_, err := fmt.Sscanf(point, "%f,%f", &l.Coordinates.Lat, &l.Coordinates.Lng)
		must.True(t, err == nil, "%s: %v", text, err)
	}
	return l
}

// figures count the results of pairs.
type figures struct{ pairs, same, right, wrong int }

func (f *figures) add(same, found bool) {
	f.pairs++
	if same {
		f.same++
	}
	if found && same {
		f.right++
	}
	if found && !same {
		f.wrong++
	}
}

func (f *figures) precision() float64 { return float64(f.right) / float64(max(1, f.right+f.wrong)) }
func (f *figures) recall() float64    { return float64(f.right) / float64(max(1, f.same)) }

// compared returns the verdict on two events as a curator finds it: without a common mark they are never compared.
func compared(a, b labelledEvent) match.Verdict {
	bond := match.Nothing
	if a.source != "" && a.source == b.source && !a.gone && !b.gone {
		bond = match.Beside
	}
	marks := b.Marks()
	share := slices.ContainsFunc(a.Marks(), func(x match.Mark) bool {
		return slices.ContainsFunc(marks, func(y match.Mark) bool {
			near := x.At.IsZero() || y.At.IsZero() || x.At.Sub(y.At).Abs() <= match.Together
			return x.Kind == y.Kind && x.Day == y.Day && x.Of == y.Of && near
		})
	})
	if !share {
		return match.Verdict{Reason: "no mark in common"}
	}
	return match.Compare(a.Subject, b.Subject, bond)
}

// The figures are minimums: a change of the rules may raise them.
func TestPairsOfTheLabelledSet(t *testing.T) {
	t.Parallel()
	all := labelled(t)
	var f figures
	for i, a := range all {
		for _, b := range all[:i] {
			if a.scene != b.scene {
				continue
			}
			same, v := a.event == b.event, compared(a, b)
			f.add(same, v.Same)
			if v.Same != same {
				t.Logf("%s: %s %.2f, want %t\n\t%s\n\t%s", a.scene, v.Reason, v.Score, same, b.line, a.line)
			}
			assert.Equal(t, compared(b, a).Same, v.Same, "the other way round it is another result: %s %s", b.line, a.line)
		}
	}
	t.Logf("%d pairs, %d the same: precision %.3f, recall %.3f", f.pairs, f.same, f.precision(), f.recall())
	if f.pairs < 400 || f.precision() < 1 || f.recall() < 0.907 {
		t.Errorf("%d pairs, precision %.3f, recall %.3f; want 400, 1, 0.907", f.pairs, f.precision(), f.recall())
	}
}

// Of the labelled events those are found that two pages of one source show at one time, and none is wrong.
func TestPairsOfOneSource(t *testing.T) {
	t.Parallel()
	all := labelled(t)
	var f figures
	for i, a := range all {
		for _, b := range all[:i] {
			if a.scene != b.scene || a.source != "" && a.source == b.source {
				continue
			}
			_, sought := match.TitleMarks(a.details)
			own, _ := match.TitleMarks(b.details)
			v := match.Compare(a.Subject, b.Subject, match.OtherPage)
			found := slices.ContainsFunc(sought, func(mark string) bool { return slices.Contains(own, mark) }) && v.Same
			if f.add(a.event == b.event, found); found && a.event != b.event {
				t.Errorf("%s: %s %.2f\n\t%s\n\t%s", a.scene, v.Reason, v.Score, b.line, a.line)
			}
		}
	}
	t.Logf("%d pairs, %d the same: precision %.3f, recall %.3f", f.pairs, f.same, f.precision(), f.recall())
	if f.pairs < 400 || f.recall() < 0.82 {
		t.Errorf("%d pairs, recall %.3f; want 400, 0.82", f.pairs, f.recall())
	}
}

// Common words of places and streets bring nothing together, and without words nothing is found.
func TestMarksSayWhichPlaceItIs(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"2026-12-01T20:00 | ; Theater Lamede, Via Lamede 12, Bozen | Jazz":    {"v:lamede"},
		"2026-12-01T20:00 | Kulturhaus Astra; Domplatz 3, Brixen | Jazz":      {"v:astra"},
		"2026-12-01T20:00 | Stadttheater; Verdiplatz 40, Bozen | Jazz":        {"v:#theatre", "v:#town"},
		"2026-12-01T20:00 | Museum; Museumstraße 43, Bozen | Jazz":            {"v:#museum"},
		"2026-12-01T20:00 | ; Via Roma 12, Bozen | Jazz":                      {"v:#street", "v:@bozen", "v:@rom"},
		"2026-12-01T20:00 | Club Club; Via Roma 12, Bozen | Astra Astra Jazz": {"v:club", "t:astra"},
	} {
		var got []string
		for _, mark := range read(t, line).Marks() {
			got = append(got, mark.Of)
		}
		assert.Alike(t, got, want, "%s", line)
	}
}

// Events of different scenes are never the same.
func TestScenesStayApart(t *testing.T) {
	t.Parallel()
	all := labelled(t)
	for i, a := range all {
		for _, b := range all[:i] {
			if a.scene != b.scene {
				v := compared(a, b)
				assert.True(t, !v.Same, "%s, %s: %s %.2f\n\t%s\n\t%s", a.scene, b.scene, v.Reason, v.Score, b.line, a.line)
			}
		}
	}
}

// Pages of one source find what others show, whichever of them was read first, by a word of the title on one day. The
// hashes of marks are stored.
func TestTitleMarks(t *testing.T) {
	t.Parallel()
	show := func(title, zone string, starts ...string) (d happening.Details) {
		d.Title, d.Time.Timezone = title, zone
		for _, text := range starts {
			o := happening.Occurrence{Start: must.Get(time.Parse("2006-01-02T15:04Z07:00", text))(t)}
			o.AllDay = o.Start.In(must.Get(time.LoadLocation(zone))(t)).Hour() == 0
			d.Instances = append(d.Instances, happening.Instance{Occurrences: []happening.Occurrence{o}})
		}
		return d
	}
	const chicago, eight, two = "America/Chicago", "2026-12-05T20:00Z", "2026-12-06T02:00Z"
	jazz, krk := show("Krk Quartet", "", eight), show("Krk", chicago, two)
	for name, tt := range map[string]struct {
		a, b     happening.Details
		one, two bool // a finds b, b finds a
	}{
		"the same":            {jazz, jazz, true, true},
		"a longer title":      {jazz, show("A night with the Krk Quartet", "", eight), true, true},
		"two words count":     {jazz, show("Anna, Bob, Carl and the Krk Quartet", "", eight), false, true},
		"another day":         {jazz, show("Krk Quartet", "", two), false, false},
		"another title":       {jazz, show("Pub quiz", "", eight), false, false},
		"a common title":      {show("Concert", "", eight), show("Concert", "", eight), true, true},
		"an evening, no zone": {krk, show("Krk", "", two), true, true},
		"an evening, its day": {krk, show("Krk", chicago, "2026-12-05T06:00Z"), true, true},
		"the day of its zone": {show("Krk", "Europe/Rome", "2026-12-04T23:00Z"), show("Krk", "", "2026-12-04T23:00Z"), false,
			false},
		"a date of a series": {jazz, show("Krk", "", eight, "2026-12-12T20:00Z"), true, false},
		"a date of a common series": {show("Concert", "", eight), show("Concert", "", eight, "2026-12-12T20:00Z"), true,
			false},
		"without a title": {show("", "", eight), show("", "", eight), false, false},
		"without a date":  {show("Krk", ""), show("Krk", ""), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finds := func(a, b happening.Details) bool {
				_, sought := match.TitleMarks(a)
				own, _ := match.TitleMarks(b)
				return slices.ContainsFunc(sought, func(mark string) bool { return slices.Contains(own, mark) })
			}
			if a, b := finds(tt.a, tt.b), finds(tt.b, tt.a); a != tt.one || b != tt.two {
				t.Errorf("found %t and %t, want %t and %t", a, b, tt.one, tt.two)
			}
		})
	}
	key := match.Mark{Kind: match.Key, Of: "url:a"}.Hash()
	place := match.Mark{Kind: match.Place, Of: "v:fox", Day: "2026-12-05"}.Hash()
	assert.True(t, key == 6359795980156621004 && place == 7004515969189209170, "hashes %d and %d", key, place)
}

// Two houses under one number are two places.
func TestHousesUnderOneNumber(t *testing.T) {
	t.Parallel()
	var both []labelledEvent
	for _, name := range []string{"a.html", "b.html"} {
		for _, o := range observed(t, filepath.Join("testdata", "houses", name)) {
			both = append(both, bare(o.Details))
		}
	}
	must.Equal(t, len(both), 2, "events")
	v := match.Compare(both[0].Subject, both[1].Subject, match.Nothing)
	assert.True(t, !v.Same && v.Reason == match.OtherPlace, "got %+v", v)
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
			assert.Equal(t, v.Same, tt.same, "%s and %s: %+v", tt.a, tt.b, v)
		}
	}
	// The house of a room, if its address names it.
	room := read(t, "2026-12-05T20:00 | Blue Cave; Big House, Quince St 5, Berlin | Pub Quiz")
	house := read(t, "2026-12-05T20:00 | Big House; Quince St 5, Berlin | Pub Quiz")
	if v := match.Compare(room.Subject, house.Subject, match.Nothing); !v.Same {
		t.Errorf("a room and its house: %+v", v)
	}
}

// FuzzCompare shows that comparing ends, and that the result depends neither on the order nor on the time.
func FuzzCompare(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"title":"Der Nussknacker"}`, `{"title":"Lo schiaccianoci"}`},
		{told1, told2},
		{`{"title":"SOLD OUT: Konzert Nr. 3"}`, `{"title":"Konzert Nr. 4 – 2. Teil"}`},
		{`{"title":"x","location":{"online":{"url":"https://meet.example/a?b"}}}`,
			`{"title":"x","location":{"online":{"url":"%zz"}}}`},
		{`{"title":"\u0000\ufffd ÅÄÖ ﬁ ㎏"}`, `{"title":"  "}`},
		{`{"title":"a","location":{"coordinates":{"lat":90,"lng":180}}}`,
			`{"title":"a","location":{"coordinates":{"lat":-91,"lng":1e300}}}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), uint8(3))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, how uint8) {
		a, ok := subject(first, how&1 != 0, "id:a")
		b, okB := subject(second, how&2 != 0, "id:b")
		if !ok || !okB {
			return
		}
		bond := match.Bond(how / 4 % 7)
		v := match.Compare(a, b, bond)
		if other := match.Compare(b, a, bond); other != v {
			t.Errorf("one way round %+v, the other %+v", v, other)
		}
		if again := match.Compare(a, b, bond); again != v {
			t.Errorf("at first %+v, then %+v", v, again)
		}
		assert.True(t, v.Reason != "" && v.Score >= 0 && v.Score <= 1 && !math.IsNaN(v.Score), "verdict %+v", v)
		if bond == match.Beside && v.Same && v.Reason == match.ByMatch {
			t.Error("two events that a source shows side by side are merged by similarity")
		}
		assert.True(t, match.Compare(a, a, match.Address).Same, "at one address nothing continues itself")
		if self := match.Compare(a, a, match.Nothing); !self.Same && len(a.Marks()) > 1 &&
			self.Reason != match.SharedEvidence {
			t.Errorf("with itself it comes to %+v", self)
		}
		for _, mark := range append(a.Marks(), b.Marks()...) {
			assert.True(t, (len(mark.Day) < len(time.DateOnly)) == (mark.Kind == match.Key) && mark.Of != "", "mark %+v", mark)
		}
	})
}

const (
	told1 = `{"title":"Mono & Nikitaman","time":{"timezone":"Europe/Rome"},"location":{"venue":{"name":"Club Max, ` +
		`Großer Saal","address":"Via Castel Firmiano 20, Brixen"},
		"displayAddress":"Club Max, Brixen","coordinates":{"lat":46.715,"lng":11.657}},"organizer":{"name":"Max"},` +
		`"primaryImage":"https://x.example/1.jpg",
		"instances":[{"id":"00000000-0000-0000-0000-000000000001","status":"scheduled",` +
		`"occurrences":[{"start":"2026-12-11T20:00:00Z","status":"scheduled"}]}]}`
	told2 = `{"title":"[ausverkauft] Mono und Nikitaman - 11.12.2026 20:30 Uhr","time":{"timezone":"Europe/Rome"},` +
		`"location":{"displayAddress":"Brixen"},
		"instances":[{"id":"00000000-0000-0000-0000-000000000002","status":"cancelled",` +
		`"occurrences":[{"start":"2026-12-10T23:00:00Z","end":"2026-12-11T23:00:00Z","allDay":true,"status":"scheduled"}]}]}`
)

// subject returns a happening of fuzzed details. Those larger than collectors permit are left out.
func subject(data []byte, shared bool, key string) (match.Subject, bool) {
	var d happening.Details
	if len(data) > 4096 || json.NewDecoder(bytes.NewReader(data)).Decode(&d) != nil || len(d.Title) > 2000 {
		return match.Subject{}, false
	}
	keys := []string{key}
	if shared {
		keys = append(keys, "id:both")
	}
	return match.Of(d, keys, now), true
}

// Only a part of long titles and addresses is compared, because each word is compared with each of the other's; the
// rest makes no difference.
func TestLongTextsAreCompared(t *testing.T) {
	t.Parallel()
	d := func(more string) happening.Details {
		text := strings.Repeat("abcdefg ", 100) + more
		return happening.Details{Title: text, Location: &happening.Location{
			Venue: &happening.Venue{Name: text, Address: strings.Repeat("abcdefg 1 2 ", 100) + more}, DisplayAddress: text,
		}, Instances: []happening.Instance{{Occurrences: []happening.Occurrence{{Start: now.AddDate(0, 0, 3)}}}}}
	}
	short, long := match.Of(d(""), nil, now), match.Of(d(strings.Repeat("hijklmn 3 4 ", 100_000)), nil, now)
	v := match.Compare(short, long, match.Nothing)
	assert.True(t, v.Same && v.Score == 1, "got %+v", v)
}
