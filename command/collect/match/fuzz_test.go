package match_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect/match"
)

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
		if v.Reason == "" || v.Score < 0 || v.Score > 1 || math.IsNaN(v.Score) {
			t.Errorf("verdict %+v", v)
		}
		if bond == match.Beside && v.Same && v.Reason == match.ByMatch {
			t.Error("two events that a source shows side by side are merged by similarity")
		}
		if !match.Compare(a, a, match.Address).Same {
			t.Error("at one address nothing continues itself")
		}
		if self := match.Compare(a, a, match.Nothing); !self.Same && len(a.Marks()) > 1 &&
			self.Reason != match.SharedEvidence {
			t.Errorf("with itself it comes to %+v", self)
		}
		for _, mark := range append(a.Marks(), b.Marks()...) {
			if (len(mark.Day) < len(time.DateOnly)) != (mark.Kind == match.Key) || mark.Of == "" {
				t.Errorf("mark %+v", mark)
			}
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
	if v := match.Compare(short, long, match.Nothing); !v.Same || v.Score != 1 {
		t.Errorf("got %+v", v)
	}
}
