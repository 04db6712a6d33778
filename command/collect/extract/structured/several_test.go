package structured_test

import (
	"strings"
	"testing"

	"carillon/command/collect"
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
		`href="https://tickets.example/7">tickets</a></div></div>
<div class="vevent"><span class="summary">Harbour Jazz</span><abbr class="dtstart" title="2026-12-05T20:00">5 `+
		`December</abbr><span class="status">cancelled</span>
 <div class="location vcard"><span class="fn org">Kajhallen</span> <span class="adr"><span `+
		`class="street-address">Havnegade 1</span> <span class="locality">Aarhus</span></span></div>
 <div class="organizer vcard"><span class="fn">Kajhallen A/S</span></div></div>`)
	compare(t, outline(result.Observations), `
Harbour Jazz [url:a.example/e/jazz] singular Europe/Copenhagen "Sat 5 Dec 2026, 20:00–23:30"
  cancelled: 2026-12-05T20:00/05T23:30`)
	d := result.Observations[0].Details
	if d.Description != "<p>Three <b>bands</b> and the sea.</p>" || d.PrimaryImage != "https://a.example/1.jpg" ||
		d.Location.DisplayAddress != "Kajhallen, Havnegade 1, Aarhus" || d.Organizer == nil ||
		d.Organizer.Name != "Kajhallen A/S" ||
		strings.Join(d.URLs, " ") != "https://a.example/e/jazz https://tickets.example/7" {
		t.Errorf("got %+v %+v", d, d.Location)
	}
	from := map[collect.Field]collect.Syntax{}
	for _, origin := range result.Observations[0].Origins {
		from[origin.Field] = origin.Syntax
	}
	for field, want := range map[collect.Field]collect.Syntax{
		collect.FieldTitle: collect.JSONLD, collect.FieldStart: collect.Microdata, collect.FieldEnd: collect.Microdata,
		collect.FieldDescription: collect.Microdata, collect.FieldStatus: collect.HCalendar,
		collect.FieldOrganizer: collect.HCalendar,
		collect.FieldLocation:  collect.HCalendar, collect.FieldURL: collect.JSONLD,
	} {
		if from[field] != want {
			t.Errorf("%s is from %q, want %s", field, from[field], want)
		}
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
		if got := only(t, "UTC", event(`,"url":"`+ref+`"`)).Details.PrimaryURL; got != want {
			t.Errorf("%s is %s, want %s", ref, got, want)
		}
	}
}
