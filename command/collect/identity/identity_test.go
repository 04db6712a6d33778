package identity_test

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"carillon/aggregates/happening"
	"carillon/command/collect/identity"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u := must.Get(url.Parse(text))(t)
	return u
}

func TestSameKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ a, b string }{
		{"http://www.a.example/e/1", "https://a.example/e/1/"},
		{"https://a.example:443/e", "https://A.example./e"},
		{"https://a.example", "https://a.example/index.html"},
		{"https://a.example/e?utm_source=x&b=2&a=1&fbclid=y", "https://a.example/e?a=1&b=2"},
		{"https://a.example/e;jsessionid=123", "https://a.example/e"},
		{"https://a.example/x/../e//1", "https://a.example/e/1"},
		{"https://a.example/caf%C3%A9", "https://a.example/café"},
		{"https://a.example/e?", "https://a.example/e"},
		{"https://a.example/e?_=1763900000123&id=3", "https://a.example/e?id=3"},
		{"https://a.example/e?t=1763900000", "https://a.example/e?t=1763986400"},
		{"https://a.example/e?rnd=0.83712649", "https://a.example/e?nocache=83712"},
		{"https://a.example/e/jazz-night?aff=ebdssbdestsearch", "https://a.example/e/jazz-night?AFF=oddtdtcreator&ref=7"},
		{"https://a.example/e/1?ref=abc123", "https://a.example/e/1"},
		{"https://a.example/show.php?id=5&ref=12", "https://a.example/show.php?id=5&ref=news"},
		{"https://a.example/show?ref=newsletter-12", "https://a.example/show?ref=facebook"},
		{"https://a.example/show?referrer=https%3A%2F%2Fb.example", "https://a.example/show"},
		{"https://a.example/e?pk_campaign=x&mtm_source=y&gad_source=1&srsltid=z&oft_id=1&hmb_medium=m",
			"https://a.example/e"},
		{"https://a.example/e?sid=9f8e7d6c5b4a39281706f5e4d3c2b1a0", "https://a.example/e"},
	} {
		a, b := identity.URLKey(parse(t, tt.a)), identity.URLKey(parse(t, tt.b))
		assert.True(t, a == b, "%s is %s, %s is %s", tt.a, a, tt.b, b)
	}
}

func TestDifferentKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ a, b string }{
		{"https://a.example/e/1", "https://a.example/e/2"},
		{"https://a.example/E", "https://a.example/e"},
		{"https://a.example/e?id=1", "https://a.example/e?id=2"},
		{"https://a.example/e?id=1763900000", "https://a.example/e?id=1763986400"},
		{"https://a.example/e?date=1763900000", "https://a.example/e?date=1763986400"},
		{"https://a.example/e?t=12", "https://a.example/e?t=13"},
		{"https://a.example/e?_=12", "https://a.example/e?_=13"},
		{"https://a.example/e?sid=12", "https://a.example/e?sid=13"},
		{"https://a.example/show.php?ref=12", "https://a.example/show.php?ref=13"},
		{"https://a.example/show?ref=jazz", "https://a.example/show?ref=quiz"},
		{"https://a.example/e?source=1", "https://a.example/e?source=2"},
		{"https://a.example/e?affair=1", "https://a.example/e?affair=2"},
		{"https://a.example/e?campaign=1", "https://a.example/e?campaign=2"},
		{"https://a.example/e#quiz", "https://a.example/e#party"},
		{"https://a.example:8080/e", "https://a.example/e"},
		{"https://b.a.example/e", "https://a.example/e"},
	} {
		if key := identity.URLKey(parse(t, tt.a)); key == identity.URLKey(parse(t, tt.b)) {
			t.Errorf("%s and %s are both %s", tt.a, tt.b, key)
		}
	}
}

func TestKeysName(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		identity.URLKey(parse(t, "https://www.a.example/e/?utm_x=1")): "url:a.example/e",
		identity.IDKey("https://a.example/e#quiz-12"):                 "id:a.example/e#quiz-12",
		identity.IDKey("urn:uuid:1"):                                  "id:urn:uuid:1",
		identity.PageKey(parse(t, "https://a.example/"), "SOLD OUT: Jazz – Night",
			"The Hall"): "page:a.example|jazz night|the hall",
	} {
		assert.Equal(t, got, want, "got")
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://u:p@www.a.example/e?b=2&utm_medium=x&a=1&utm_source=y#z": "http://www.a.example/e?b=2&a=1#z",
		"https://a.example/e?utm_x=1":                                    "https://a.example/e",
		"https://a.example/e?q=%zz":                                      "https://a.example/e?q=%zz",
	} {
		assert.Equal(t, identity.Clean(parse(t, text)), want, "%s", text)
	}
}

func TestGenericFragments(t *testing.T) {
	t.Parallel()
	for fragment, want := range map[string]bool{"": true, "event": true, "Event": true, "/schema": true, "1": true,
		"event-12": false, "quiz": false, "123": false} {
		assert.Equal(t, identity.IsGeneric(fragment), want, "%q", fragment)
	}
}

func TestSplitRemark_noText(t *testing.T) {
	t.Parallel()
	title := "[" + strings.Repeat("\x80", 200)
	rest, remark := identity.SplitRemark(title)
	assert.True(t, rest == title && remark == (identity.Remark{}), "got %q with %+v", rest, remark)
}

func TestReadRemark(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]identity.Remark{
		"Cancelled": {Status: happening.Cancelled}, " abgesagt! ": {Status: happening.Cancelled},
		"REPORTÉ": {Status: happening.Postponed},
		"ny dato": {Status: happening.Rescheduled}, "uitverkocht": {SoldOut: true},
		"confirmed": {}, "not cancelled": {}, "": {}, strings.Repeat("cancelled", 100): {},
	} {
		assert.Equal(t, identity.ReadRemark(text), want, "%.40q", text)
	}
}

func TestSplitRemark(t *testing.T) {
	t.Parallel()
	cancelled, postponed := identity.Remark{Status: happening.Cancelled}, identity.Remark{Status: happening.Postponed}
	rescheduled, soldOut := identity.Remark{Status: happening.Rescheduled}, identity.Remark{SoldOut: true}
	for _, tt := range []struct {
		title, rest string
		remark      identity.Remark
	}{
		{"CANCELLED - Typhoon with Radiation City", "Typhoon with Radiation City", cancelled},
		{"Canceled: Board meeting", "Board meeting", cancelled},
		{"[ABGESAGT] Konzert", "Konzert", cancelled},
		{"Konzert – fällt aus!", "Konzert", cancelled},
		{"Отменено: Концерт", "Концерт", cancelled},
		{"【公演中止】演奏会", "演奏会", cancelled},
		{"音乐会（已取消）", "音乐会", cancelled},
		{"Konser (iptal edildi)", "Konser", cancelled},
		{"取消しの歌", "取消しの歌", identity.Remark{}},
		{"**Postponed** Quiz", "Quiz", postponed},
		{"Quiz (rescheduled)", "Quiz", rescheduled},
		{"Gig - SOLD OUT", "Gig", soldOut},
		{"Sold out! Gig", "Gig", soldOut},
		{"Concert [ANNULÉ]", "Concert", cancelled},
		{"Suspendido: Concierto", "Concierto", cancelled},
		{"Koncert – odwołany", "Koncert", cancelled},
		{"ZRUŠENO: Koncert", "Koncert", cancelled},
		{"Konsertti (peruttu)", "Konsertti", cancelled},
		{"Konsert | Inställt", "Konsert", cancelled},
		{"Konzert (entfällt)", "Konzert", cancelled},
		{"Concert (reporté)", "Concert", postponed},
		{"Koncert: udskudt", "Koncert", postponed},
		{"Concerto - rinviato", "Concerto", postponed},
		{"Neuer Termin: Konzert", "Konzert", rescheduled},
		{"Concert - complet", "Concert", soldOut},
		{"Concierto (entradas agotadas)", "Concierto", soldOut},
		{"Tutto esaurito! Concerto", "Concerto", soldOut},
		{"Konsert (slutsålt)", "Konsert", soldOut},
		{"Konzert [ausgebucht]", "Konzert", soldOut},
		{strings.Repeat("A very long title ", 20) + "(sold out)", strings.TrimSpace(strings.Repeat("A very long title ", 20)),
			soldOut},
		{"(sold out) " + strings.Repeat("ü", 200), strings.Repeat("ü", 200), soldOut},
		{"Cancelled Plans", "Cancelled Plans", identity.Remark{}},
		{"The Cancelled", "The Cancelled", identity.Remark{}},
		{"Un concert complet", "Un concert complet", identity.Remark{}},
		{"Pre-sold-out party", "Pre-sold-out party", identity.Remark{}},
		{"CANCELLED!", "CANCELLED!", identity.Remark{}},
	} {
		rest, remark := identity.SplitRemark(tt.title)
		assert.True(t, rest == tt.rest && remark == tt.remark, "%q is %q with %+v", tt.title, rest, remark)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	assert.Equal(t, identity.Words("  Ｊazz & Blues —  Café №1 "), "jazz blues café no1", "Words")
}

func TestSameSite(t *testing.T) {
	t.Parallel()
	base := parse(t, "https://www.bücher.example/list")
	for address, want := range map[string]bool{
		"http://bücher.example/": true, "https://WWW.BÜCHER.example.:443/x": true, "http://xn--bcher-kva.example:80": true,
		"https://bücher.example:8443/": false, "https://a.bücher.example/": false, "https://example/": false,
		"https://bücher.example.evil.example/": false,
	} {
		assert.Equal(t, identity.SameSite(parse(t, address), base), want, "%s", address)
	}
}

// FuzzSplitRemark shows that the rest of a title is never empty.
func FuzzSplitRemark(f *testing.F) {
	for _, title := range []string{"CANCELLED - Gig", "Gig (ausverkauft)", "[Annulé] Concert", "Gig – neuer Termin!",
		strings.Repeat("ü", 99) + " (sold out)"} {
		f.Add(title)
	}
	f.Fuzz(func(t *testing.T, title string) {
		rest, remark := identity.SplitRemark(title)
		if title != "" && rest == "" || len(rest) > len(title) || remark == (identity.Remark{}) && rest != title {
			t.Fatalf("%q is %q with %+v", title, rest, remark)
		}
		if utf8.ValidString(title) && !utf8.ValidString(rest) {
			t.Fatalf("%q is cut within a character", rest)
		}
	})
}
