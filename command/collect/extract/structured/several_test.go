package structured_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/extract/structured"
	"carillon/command/collect/extract/timing"
	"carillon/eventstore/storetest/assert"
)

// An event in three syntaxes is one event, with the details of each.
func TestSeveralSyntaxes(t *testing.T) {
	t.Parallel()
	result := read(t, "https://a.example/programme", "Europe/Copenhagen", `<html lang="en">
<script type="application/ld+json">{"@context":"https://schema.org","@type":"MusicEvent","name":"Harbour Jazz",`+
		`"startDate":"2026-12-05","url":"/e/jazz",
 "description":"Three bands…","location":{"@type":"Place","name":"Kajhallen"}}</script>
<div itemscope itemtype="https://schema.org/MusicEvent"><h2 itemprop="name">Harbour Jazz</h2>
 <meta itemprop="startDate" content="2026-12-05T20:00"><meta itemprop="endDate" content="2026-12-05T23:30">
 <div itemprop="description"><p>Three <b>bands</b> and the sea.</p></div><img itemprop="image" src="/1.jpg">
 <div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><a itemprop="url" `+
		`href="https://tickets.example/7">tickets</a></div>
 <div itemprop="organizer" itemscope itemtype="https://schema.org/Organization">
 <b itemprop="name">Kajhallen A/S</b></div></div>
<div class="vevent"><span class="summary">Harbour Jazz</span><abbr class="dtstart" title="2026-12-05T20:00">5 `+
		`December</abbr><span class="status">cancelled</span>
 <div class="location vcard"><span class="fn org">Kajhallen</span> <span class="adr"><span `+
		`class="street-address">Havnegade 1</span> <span class="locality">Aarhus</span></span></div>
 <div class="organizer vcard"><a class="fn url" href="https://kajhallen.example/">Kajhallen A/S</a></div></div>`)
	compare(t, outline(result.Observations), `
Harbour Jazz [url:a.example/e/jazz] singular Europe/Copenhagen "Sat 5 Dec 2026, 20:00–23:30"
  cancelled: 2026-12-05T20:00/05T23:30`)
	d := result.Observations[0].Details
	assert.True(t, d.Description == "<p>Three <b>bands</b> and the sea.</p>" &&
		d.PrimaryImage == "https://a.example/1.jpg" && d.Location.DisplayAddress == "Kajhallen, Havnegade 1, Aarhus" &&
		d.Organizer != nil && d.Organizer.Name == "Kajhallen A/S" && d.Organizer.URL == "https://kajhallen.example/" &&
		strings.Join(d.URLs, " ") == "https://a.example/e/jazz https://tickets.example/7", "got %+v %+v", d, d.Location)
	from := map[collect.Field]collect.Syntax{}
	for _, origin := range result.Observations[0].Origins {
		from[origin.Field] = origin.Syntax
	}
	for field, want := range map[collect.Field]collect.Syntax{
		collect.FieldTitle: collect.JSONLD, collect.FieldStart: collect.Microdata, collect.FieldEnd: collect.Microdata,
		collect.FieldDescription: collect.Microdata, collect.FieldStatus: collect.HCalendar,
		collect.FieldOrganizer: collect.Microdata,
		collect.FieldLocation:  collect.HCalendar, collect.FieldURL: collect.JSONLD,
	} {
		assert.Equal(t, from[field], want, "%s is from", field)
	}
}

// Similar but different events stay separate.
func TestSimilarEvents(t *testing.T) {
	t.Parallel()
	micro := func(name, start, venue string) string {
		return `<div itemscope itemtype="https://schema.org/Event"><span itemprop="name">` + name +
			`</span><meta itemprop="startDate" content="` + start + `"><span itemprop="location">` + venue + `</span></div>`
	}
	block := ld(`{"@type":"Event","name":"Hamlet","startDate":"2026-12-05T14:00","location":"Town Theatre"}`)
	for name, tt := range map[string]struct {
		other string
		want  int
	}{
		"the same":                      {micro("Hamlet", "2026-12-05T14:00", "Town Theatre"), 1},
		"the same, as an instant":       {micro("Hamlet", "2026-12-05T13:00Z", "Town Theatre"), 1},
		"with a remark":                 {micro("Hamlet (sold out)", "2026-12-05T14:00", "Town Theatre"), 1},
		"another place":                 {micro("Hamlet", "2026-12-05T14:00", "Castle"), 2},
		"a place that says more":        {micro("Hamlet", "2026-12-05T14:00", "Town Theatre, main stage"), 1},
		"another title":                 {micro("Macbeth", "2026-12-05T14:00", "Town Theatre"), 2},
		"another day":                   {micro("Hamlet", "2026-12-06T14:00", "Castle"), 2},
		"without a date":                {micro("Hamlet", "", "Town Theatre"), 1},
		"without a date, another title": {micro("Macbeth", "", "Town Theatre"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := read(t, "https://a.example/programme", "Europe/London", block+tt.other).Observations; len(got) != tt.want {
				t.Errorf("%d events:\n%s", len(got), outline(got))
			}
		})
	}
	// Matinee and evening are two instances of one happening, each of which is repeated.
	evening := ld(`{"@type":"Event","name":"Hamlet","startDate":"2026-12-05T19:30","location":"Town Theatre"}`)
	compare(t, outline(read(t, "https://a.example/programme", "Europe/London", block+evening+micro("Hamlet",
		"2026-12-05T14:00", "Town Theatre")+micro("Hamlet", "2026-12-05T19:30", "Town Theatre")).Observations), `
Hamlet [page:a.example/programme|hamlet|town theatre] recurring Europe/London "Sat 5 Dec 2026, 14:00; Sat 5 Dec `+
		`2026, 19:30"
  scheduled: 2026-12-05T14:00
  scheduled: 2026-12-05T19:30`)
}

// The same event twice in one syntax, once with its address and once with its place.
func TestRepeatedInOneSyntax(t *testing.T) {
	t.Parallel()
	compare(t, outline(read(t, "https://a.example/programme", "Europe/London", ld(`[
		{"@type":"Event","name":"Gig","startDate":"2026-12-05T20:00","url":"/e/1"},
		{"@type":"Event","name":"Gig","startDate":"2026-12-05T20:00","endDate":"2026-12-05T22:00","location":"Hall"},
		{"@type":"Event","name":"Talk","startDate":"2026-12-05T20:00","url":"/e/2"},
		{"@type":"Event","name":"Talk","startDate":"2026-12-05T20:00","url":"/e/3"}]`)).Observations), `
Gig [url:a.example/e/1] singular Europe/London "Sat 5 Dec 2026, 20:00–22:00"
  scheduled: 2026-12-05T20:00/05T22:00
Talk [url:a.example/e/2] singular Europe/London "Sat 5 Dec 2026, 20:00"
  scheduled: 2026-12-05T20:00
Talk [url:a.example/e/3] singular Europe/London "Sat 5 Dec 2026, 20:00"
  scheduled: 2026-12-05T20:00`)
}

// An id of several names identifies none of them, in Microdata and RDFa as in JSON-LD.
func TestSharedIDs(t *testing.T) {
	t.Parallel()
	page := `<div itemscope itemtype="https://schema.org/Event" itemid="https://a.example/x"><i itemprop="name">One</i>` +
		`<meta itemprop="startDate" content="2026-12-05"></div>
		<div itemscope itemtype="https://schema.org/Event" itemid="https://a.example/x"><i itemprop="name">Two</i><meta ` +
		`itemprop="startDate" content="2026-12-06"></div>`
	want := `
One [page:a.example/programme|one|] singular Europe/London "Sat 5 Dec 2026"
  scheduled: 2026-12-05T00:00/06T00:00
Two [page:a.example/programme|two|] singular Europe/London "Sun 6 Dec 2026"
  scheduled: 2026-12-06T00:00/07T00:00`
	compare(t, outline(read(t, "https://a.example/programme", "Europe/London", page).Observations), want)
	rdfa := `<div vocab="https://schema.org/">` +
		strings.ReplaceAll(asRDFa(strings.ReplaceAll(page, ` itemid="https://a.example/x"`, "")), `typeof="Event"`,
			`typeof="Event" resource="https://a.example/x"`)
	compare(t, outline(read(t, "https://a.example/programme", "Europe/London", rdfa).Observations), want)

	// The parts of a thing at two places are combined.
	compare(t, outline(read(t, "https://a.example/programme", "Europe/London", `
		<div itemscope itemtype="https://schema.org/Event" itemid="/e/1"><i itemprop="name">One</i></div>
		<div itemscope itemtype="https://schema.org/Event" itemid="/e/1"><meta itemprop="startDate" content="2026-12-05">`+
		`</div>`).Observations), `
One [url:a.example/e/1] singular Europe/London "Sat 5 Dec 2026"
  scheduled: 2026-12-05T00:00/06T00:00`)
}

func TestMicrodataReferences(t *testing.T) {
	t.Parallel()
	result := read(t, "https://a.example/programme", "Europe/London", `
		<div itemscope itemtype="https://schema.org/Event" itemref="where when"><a itemprop="name" href="/e/1">One</a></div>
		<div itemscope itemtype="https://schema.org/Event" itemref="where when loop" id="loop"><i itemprop="name">Two</i>`+
		`</div>
		<p id="when"><time itemprop="startDate">2026-12-05T20:00</time></p>
		<div id="where" itemprop="location" itemscope itemtype="https://schema.org/Place" itemref="where">`+
		`<i itemprop="name">Hall</i></div>`)
	compare(t, outline(result.Observations), `
One [page:a.example/programme|one|hall] singular Europe/London "Sat 5 Dec 2026, 20:00"
  scheduled: 2026-12-05T20:00
Two [page:a.example/programme|two|hall] singular Europe/London "Sat 5 Dec 2026, 20:00"
  scheduled: 2026-12-05T20:00`)
}

func TestRDFaDeclarations(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]string{
		"vocab": `<div vocab="http://schema.org/" typeof="Event"><i property="name">One</i>` +
			`<i property="startDate" content="2026-12-05">5.</i></div>`,
		"prefix": `<body prefix="og: http://ogp.me/ns# s: https://schema.org/"><div typeof="s:Event"><i ` +
			`property="s:name">One</i><i property="s:startDate" datetime="2026-12-05">5.</i><i property="og:title">no</i></div>`,
		"known prefix": `<div typeof="schema:Event sioc:Item"><i property="schema:name">One</i>` +
			`<time property="schema:startDate" datetime="2026-12-05">5.</time></div>`,
		"whole terms": `<div typeof="https://schema.org/Event"><i property="https://schema.org/name">One</i>` +
			`<time property="http://schema.org/startDate">2026-12-05</time></div>`,
		"another vocab": `<div vocab="http://schema.org/"><p vocab="http://purl.org/dc/terms/"><i property="title">no</i>` +
			`</p><div typeof="Event"><i property="name">One</i><i property="startDate">2026-12-05</i></div></div>`,
		"about": `<div vocab="http://schema.org/"><div about="#1" typeof="Event"><i property="name">One</i></div>` +
			`<p about="#1"><i property="startDate">2026-12-05</i></p></div>`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := read(t, "https://a.example/programme", "Europe/London", page).Observations
			if len(o) != 1 || o[0].Details.Title != "One" || o[0].Details.Time.DisplayText != "Sat 5 Dec 2026" {
				t.Errorf("got %s", outline(o))
			}
		})
	}
}

func ld(block string) string { return `<script type="application/ld+json">` + block + "</script>" }

// A URL may lack its scheme; a file name is not a URL.
func TestHostsWithoutAScheme(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"tickets.example.com/1": "https://tickets.example.com/1", "club.tokyo/x": "https://club.tokyo/x",
		"venue.co.uk":    "https://venue.co.uk",
		"www.venue.rs/x": "https://www.venue.rs/x", "page.html": "https://a.example/page.html",
		"event.pl":  "https://a.example/event.pl",
		"readme.md": "https://a.example/readme.md", "e/1.2": "https://a.example/e/1.2",
	} {
		assert.Equal(t, only(t, "UTC", event(`,"url":"`+ref+`"`)).Details.PrimaryURL, want, "%s", ref)
	}
}

// A page has a higher standing for the event that it is about.
func TestStanding(t *testing.T) {
	t.Parallel()
	const (
		jazz = `{"@type":"Event","name":"Jazz night","startDate":"2026-12-05T20:00","location":"Kajhallen","url":"/e/jazz"}`
		quiz = `{"@type":"Event","name":"Quiz","startDate":"2026-12-06T20:00","location":"Kajhallen"}`
	)
	ld := func(heading, events string) string {
		return "<title>" + heading + "</title><h1>" + heading + `</h1><script type="application/ld+json">` + events +
			"</script>"
	}
	for name, tt := range map[string]struct {
		address, page string
		want          []happening.Standing
	}{
		"its only event": {"/x", `<script type="application/ld+json">` + quiz + "</script>",
			[]happening.Standing{happening.FromOwnPage}},
		"its heading": {"/x", ld("Jazz night at Kajhallen", jazz),
			[]happening.Standing{happening.FromOwnPage}},
		"its heading, beside others": {"/x", ld("Jazz night", "["+jazz+","+quiz+"]"),
			[]happening.Standing{happening.FromOwnPage, happening.FromListing}},
		"its address alone": {"/e/jazz", ld("Welcome", jazz), []happening.Standing{happening.FromOwnPage}},
		"its address, beside others": {"/e/jazz", ld("Welcome", "["+jazz+","+quiz+"]"),
			[]happening.Standing{happening.FromOwnPage, happening.FromListing}},
		"a listing": {"/x", ld("Programme", "["+jazz+","+quiz+"]"),
			[]happening.Standing{happening.FromListing, happening.FromListing}},
		"a listing with one event": {"/x", ld("Programme", jazz), []happening.Standing{happening.FromListing}},
		"several that it is about": {"/x", ld("Jazz night and Quiz", "["+jazz+","+quiz+"]"),
			[]happening.Standing{happening.FromListing, happening.FromListing}},
		"performances of one show": {"/x",
			ld("Quiz", "["+quiz+`,{"@type":"Event","name":"Quiz","startDate":"2026-12-13T20:00","location":"Kajhallen"}]`),
			[]happening.Standing{happening.FromOwnPage}},
		"an address that others have": {"/e/jazz",
			ld("Programme", "["+jazz+`,{"@type":"Event","name":"Jam","startDate":"2026-12-07T20:00","url":"/e/jazz"}]`),
			[]happening.Standing{happening.FromListing, happening.FromListing}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := read(t, "https://example.org"+tt.address, "Europe/Copenhagen", tt.page).Observations
			if len(found) != len(tt.want) {
				t.Fatalf("%d observations:\n%s", len(found), outline(found))
			}
			for i, o := range found {
				assert.Equal(t, o.Standing, tt.want[i], "%s has standing", o.Details.Title)
			}
		})
	}
}

// An event whose address is its page's is identified by it, unless another event of the page claims it too.
func TestOwnAddress(t *testing.T) {
	t.Parallel()
	const (
		gig     = `{"@type":"Event","name":"Gig","startDate":"2026-12-05T20:00","location":"Hall"`
		matinee = `{"@type":"Event","name":"Gig","startDate":"2026-12-05T15:00","location":"Hall"`
		quiz    = `{"@type":"Event","name":"Quiz","startDate":"2026-12-06T20:00","location":"Hall"`
		own     = `,"url":"/e/1"}`
		none    = "}"
	)
	const address, weakGig, weakQuiz = "url:a.example/e/1", "page:a.example/e/1|gig|hall", "page:a.example/e/1|quiz|hall"
	for name, tt := range map[string]struct {
		head, events string
		want         []string // key, strong keys, alias
	}{
		"alone": {"<title>Welcome</title><h1>What's on</h1>", gig + own,
			[]string{address + " " + address + " ~" + weakGig}},
		"beside others": {"<title>Welcome</title>", gig + own + "," + quiz + `,"url":"/e/2"}`,
			[]string{address + " " + address + " ~" + weakGig, "url:a.example/e/2 url:a.example/e/2 ~"}},
		"beside one that has no address": {"", gig + own + "," + quiz + none, []string{address + " " + address + " ~" +
			weakGig, weakQuiz + "  ~"}},
		"shared": {"", gig + own + "," + quiz + own, []string{weakGig + "  ~", weakQuiz + "  ~"}},
		"shared, on a page about one": {"<title>Gig</title>", gig + own + "," + quiz + own,
			[]string{weakGig + "  ~", weakQuiz + "  ~"}},
		"the page is about another": {"<title>Quiz</title>", gig + own + "," + quiz + none,
			[]string{weakGig + "  ~", weakQuiz + "  ~"}},
		"matinee and evening": {"", matinee + own + "," + gig + own, []string{address + " " + address + " ~" +
			weakGig}},
		"matinee and evening, one without": {"", matinee + none + "," + gig + own, []string{address + " " + address + " ~" +
			weakGig}},
		"#event": {"<title>Welcome</title>", gig + `,"@id":"#event"}`,
			[]string{weakGig + "  ~" + address}},
		"#event on each": {"", gig + `,"@id":"#event"},` + quiz + `,"@id":"#event"}`,
			[]string{weakGig + "  ~", weakQuiz + "  ~"}},
		"#event beside one of the address": {"", gig + `,"@id":"#event"},` + quiz + own, []string{weakGig + "  ~", address +
			" " + address + " ~" + weakQuiz}},
		"#event and an address": {"", gig + `,"@id":"#event","url":"/e/1"}`, []string{address + " " + address +
			" ~" + weakGig}},
		"another one by its canonical": {`<title>Gig</title><link rel="canonical" href="/e/one">`, gig + none,
			[]string{"url:a.example/e/one url:a.example/e/one ~" + weakGig}},
		"canonical is the front page": {`<title>Gig</title><link rel="canonical" href="/">`, gig + none,
			[]string{address + " " + address + " ~" + weakGig}},
		"canonical is the section": {`<title>Gig</title><link rel="canonical" href="/e/">`, gig + none,
			[]string{address + " " + address + " ~" + weakGig}},
		"#event of the front page": {"<title>Gig</title>", gig + `,"@id":"https://a.example/#event"}`,
			[]string{address + " " + address + " ~" + weakGig}},
		"canonical is another site's": {`<title>Gig</title><link rel="canonical" href="https://b.example/e/1">`,
			gig + none, []string{address + " " + address + " ~" + weakGig}},
		"an identifier, too": {"", gig + `,"identifier":{"@type":"PropertyValue","propertyID":"eid",` +
			`"value":"7"},"url":"/e/1"}`, []string{address + " " + address + " id:a.example|eid|7 ~"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := read(t, "https://a.example/e/1", "Europe/London", tt.head+ld("["+tt.events+"]")).Observations
			got := make([]string, len(found))
			for i, o := range found {
				got[i] = o.Key + " " + strings.Join(o.Keys, " ") + " ~" + o.Alias
			}
			compare(t, strings.Join(got, "\n"), "\n"+strings.Join(tt.want, "\n"))
		})
	}
}

// The settings of a source decide what is read.
func TestSettingsOfSource(t *testing.T) {
	t.Parallel()
	const list = `<h1>Events</h1><ul><li><a href="/a">Folk</a> 5 December 2026</li><li><a href="/b">Jazz</a> ` +
		`9 January 2027</li><li><a href="/c">Swing</a> 6 February 2027</li></ul>`
	const page = list + `<table id="x"><tr><td>05.12.</td><td><b>Choir</b></td><td class="t">20:00</td><td>Fox Inn</td>` +
		`<td><i><a href="/d">More</a></i></td></tr><tr><td>1 December 2025</td><td><b>Past</b></td></tr>` +
		`<tr><td></td><td><b>Undated</b></td></tr><tr><td>8.12.</td></tr></table><p class="e"><time ` +
		`datetime="2026-12-07T19:00">Monday</time> to <time datetime="2026-12-07T22:00">ten</time> <b>Opera</b></p>`
	for name, c := range map[string]struct {
		settings source.Settings
		want     string
	}{
		"default": {source.Settings{}, "Folk 2026-12-05T00:00 list https://x.example/a | Jazz 2027-01-09T00:00 list " +
			"https://x.example/b | Swing 2027-02-06T00:00 list https://x.example/c"},
		"lists are ignored": {source.Settings{IgnoreLists: true}, ""},
		"selectors": {source.Settings{Selectors: source.Selectors{
			Event: "#x tr",
			Title: "b",
			Start: "td:nth-child(1)",
			End:   ".t",
			Place: "td:nth-child(4)",
			Link:  "i",
		}}, "Choir 2026-12-05T20:00 selectors https://x.example/d Fox Inn"},
		"dates for programs": {source.Settings{Selectors: source.Selectors{
			Event: "p.e",
			Title: "b",
			Start: "time:first-of-type",
			End:   "time:last-of-type",
		}}, "Opera 2026-12-07T19:00/22:00 selectors https://x.example/events"},
		"defaults of fields": {source.Settings{Selectors: source.Selectors{Event: "ul > li:first-child"}},
			"Folk 2026-12-05T00:00 selectors https://x.example/a"},
		"selectors that find nothing": {source.Settings{
			IgnoreLists: true,
			Selectors:   source.Selectors{Event: "ol"},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := readPage(t, structured.Page{
				URL:      &url.URL{Scheme: "https", Host: "x.example", Path: "/events"},
				Timezone: "UTC",
				Settings: c.settings,
				Window:   timing.WindowAt(now),
			}, page)
			var got []string
			for _, o := range result.Observations {
				at := o.Details.Instances[0].Occurrences[0]
				line := o.Details.Title + " " + at.Start.Format("2006-01-02T15:04")
				if at.End != nil && !at.AllDay {
					line += at.End.Format("/15:04")
				}
				line += fmt.Sprintf(" %s %s", o.Origins[0].Syntax, o.Details.PrimaryURL)
				if l := o.Details.Location; l != nil {
					line += " " + l.DisplayAddress
				}
				got = append(got, line)
			}
			assert.Equal(t, strings.Join(got, " | "), c.want, "notes %v", result.Notes)
			if name == "selectors" && !result.Notes.Has(collect.NoteSkippedEvent) {
				t.Errorf("notes %v", result.Notes)
			}
		})
	}
}

// Events in properties of another microformat are read in the same order each time.
func TestMicroformatsWithinAnother(t *testing.T) {
	t.Parallel()
	event := func(property, name string) string {
		return `<i class="p-` + property + ` h-event"><b class="p-name">` + name + `</b>` +
			`<time class="dt-start">2026-12-05</time></i>`
	}
	page := `<div class="h-entry">` + event("b", "One") + event("a", "Two") + event("d", "Three") + event("c", "Four") +
		`</div>`
	first := outline(read(t, "https://a.example/programme", "", page).Observations)
	for range 20 {
		compare(t, outline(read(t, "https://a.example/programme", "", page).Observations), first)
	}
}
