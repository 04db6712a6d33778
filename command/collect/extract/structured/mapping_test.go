package structured_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"carillon/command/collect"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// mappings has each field of the mapping table in each syntax. An empty one can't express it.
var mappings = []struct {
	field string
	// schema is Microdata; RDFa is derived from it.
	schema, h, classic string
	want               string
}{
	{
		"description", `<div itemprop="description"><p>Three <b>bands</b>.</p></div>`,
		`<div class="e-content"><p>Three <b>bands</b>.</p></div>`,
		`<div class="description"><p>Three <b>bands</b>.</p></div>`,
		`<p>Three <b>bands</b>.</p>`,
	},
	{"shortDescription", `<meta itemprop="disambiguatingDescription" content="Three bands">`,
		`<p class="p-summary">Three bands</p>`, ``, `Three bands`},
	{
		"start", `<time itemprop="startDate" datetime="2026-12-06T21:00">`,
		`<time class="dt-start" datetime="2026-12-06T21:00">6 December</time>`,
		`<span class="dtstart"><abbr class="value" title="2026-12-06">6 December</abbr> at <span class="value">9pm</span>` +
			`</span>`,
		`2026-12-06T21:00`,
	},
	{
		"end", `<meta itemprop="endDate" content="2026-12-05T23:00">`,
		`<span class="dt-end"><span class="value">23:00</span></span>`,
		`<span class="dtend"><span class="value">11pm</span></span>`, `2026-12-05T23:00`,
	},
	{"end by duration", `<meta itemprop="duration" content="PT3H">`,
		`<time class="dt-duration" datetime="PT3H">3 hours</time>`, `<abbr class="duration" title="PT3H">3 hours</abbr>`,
		`2026-12-05T23:00`},
	{
		"recurrence", `<div itemprop="eventSchedule" itemscope itemtype="https://schema.org/Schedule">` +
			`<meta itemprop="repeatFrequency" content="P1W"><meta itemprop="repeatCount" content="2">` +
			`<meta itemprop="startTime" content="20:00"></div>`,
		`<time class="dt-start" datetime="2026-12-12T20:00">and again</time>`,
		`<abbr class="dtstart" title="2026-12-12T20:00">and again</abbr>`,
		`recurring 2026-12-05T20:00 2026-12-12T20:00`,
	},
	{"status", `<link itemprop="eventStatus" href="https://schema.org/EventPostponed">`,
		`<span class="p-status">Postponed</span>`, `<span class="status">postponed</span>`, `postponed`},
	{"status cancelled", `<meta itemprop="eventStatus" content="EventCancelled">`,
		`<span class="p-status">CANCELLED</span>`, `<span class="status">Cancelled</span>`, `cancelled`},
	{"status confirmed", `<meta itemprop="eventStatus" content="EventScheduled">`,
		`<span class="p-status">CONFIRMED</span>`, `<span class="status">tentative</span>`, `scheduled`},
	{"status in another language", `<span itemprop="eventStatus">Abgesagt!</span>`, `<span class="p-status">annulé</span>`,
		`<span class="status">Cancelado</span>`, `cancelled`},
	{"timezone", `<meta itemprop="startDate" content="2026-12-06T20:00-05:00">`,
		`<time class="dt-start" datetime="2026-12-06T20:00-05:00">8</time>`,
		`<abbr class="dtstart" title="2026-12-06T20:00-05:00">8</abbr>`, `Etc/GMT+5`},
	{
		"venue", `<div itemprop="location" itemscope itemtype="https://schema.org/Place"><span ` +
			`itemprop="name">Kajhallen</span><div itemprop="address" itemscope itemtype="https://schema.org/PostalAddress">` +
			`<span itemprop="streetAddress">Havnegade 1</span><span itemprop="postalCode">8000</span>` +
			`<span itemprop="addressLocality">Aarhus</span><span itemprop="addressCountry">DK</span></div></div>`,
		`<div class="p-location h-card"><span class="p-name">Kajhallen</span><div class="p-adr h-adr">` +
			`<span class="p-street-address">Havnegade 1</span><span class="p-postal-code">8000</span>` +
			`<span class="p-locality">Aarhus</span><span class="p-country-name">DK</span></div></div>`,
		`<div class="location vcard"><span class="fn org">Kajhallen</span><div class="adr">` +
			`<span class="street-address">Havnegade 1</span><span class="postal-code">8000</span>` +
			`<span class="locality">Aarhus</span><span class="country-name">DK</span></div></div>`,
		`{"venue":{"name":"Kajhallen","address":"Havnegade 1, 8000 Aarhus, DK"},"displayAddress":"Kajhallen, Havnegade 1, ` +
			`8000 Aarhus, DK"}`,
	},
	{"venue as text", `<span itemprop="location">Town Hall</span>`, `<span class="p-location">Town Hall</span>`,
		`<span class="location">Town Hall</span>`, `{"venue":{"name":"Town Hall"},"displayAddress":"Town Hall"}`},
	{
		"displayAddress", `<div itemprop="location" itemscope itemtype="https://schema.org/PostalAddress">` +
			`<span itemprop="addressLocality">Aarhus</span></div>`,
		`<div class="p-location h-adr"><span class="p-locality">Aarhus</span></div>`,
		`<div class="location adr"><span class="locality">Aarhus</span></div>`, `{"displayAddress":"Aarhus"}`,
	},
	{
		"coordinates", `<div itemprop="location" itemscope itemtype="https://schema.org/Place"><div itemprop="geo" ` +
			`itemscope itemtype="https://schema.org/GeoCoordinates"><meta itemprop="latitude" content="56.15">` +
			`<meta itemprop="longitude" content="10.21"></div></div>`,
		`<span class="p-geo h-geo"><data class="p-latitude" value="56.15">N</data><data class="p-longitude" ` +
			`value="10.21">E</data></span>`,
		`<span class="geo"><abbr class="latitude" title="56.15">N</abbr><abbr class="longitude" title="10.21">E</abbr>` +
			`</span>`,
		`{"coordinates":{"lat":56.15,"lng":10.21}}`,
	},
	{
		"coordinates in one", `<div itemprop="location" itemscope itemtype="https://schema.org/Place">` +
			`<span itemprop="latitude">56.15</span><span itemprop="longitude">10.21</span></div>`,
		`<span class="p-location h-card"><data class="p-geo" value="56.15;10.21">here</data></span>`,
		`<abbr class="geo" title="56.15;10.21">here</abbr>`,
		`{"coordinates":{"lat":56.15,"lng":10.21}}`,
	},
	{
		"online", `<div itemprop="location" itemscope itemtype="https://schema.org/VirtualLocation"><a itemprop="url" ` +
			`href="https://zoom.us/j/1">Zoom</a></div>`,
		`<a class="p-location h-card" href="https://zoom.us/j/1">Zoom</a>`, ``,
		`{"online":{"platform":"Zoom","url":"https://zoom.us/j/1"},"displayAddress":"Online"}`,
	},
	{"capacity", `<meta itemprop="maximumAttendeeCapacity" content="90"><meta itemprop="remainingAttendeeCapacity" ` +
		`content="3">`, ``, ``, `{"total":90,"available":3,"unlimited":false}`},
	{
		"sold out", `<div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><link itemprop="availability" ` +
			`href="https://schema.org/SoldOut"></div>`, ``, ``,
		`{"available":0,"unlimited":false}`,
	},
	{
		"organizer", `<div itemprop="organizer" itemscope itemtype="https://schema.org/Organization"><a itemprop="url" ` +
			`href="https://club.example/"><span itemprop="name">The Club</span></a>` +
			`<span itemprop="email">a@club.example</span></div>`,
		`<div class="p-organizer h-card"><a class="p-name u-url" href="https://club.example/">The Club</a> ` +
			`<a class="u-email" href="mailto:a@club.example">mail</a></div>`,
		`<div class="organizer vcard"><a class="fn url" href="https://club.example/">The Club</a> <a class="email" ` +
			`href="mailto:a@club.example">mail</a></div>`,
		`{"name":"The Club","url":"https://club.example/","contact":"a@club.example"}`,
	},
	{"image", `<img itemprop="image" src="/1.jpg">`, `<img class="u-photo" src="/1.jpg">`,
		`<img class="photo" src="/1.jpg">`, `https://a.example/1.jpg`},
	{"image that loads later", `<img itemprop="image" src="/blank.gif" data-src="/1.jpg">`,
		`<img class="u-featured" src="/blank.gif" data-src="/1.jpg">`,
		`<img class="photo" src="/blank.gif" data-src="/1.jpg">`, `https://a.example/1.jpg`},
	{"image in sizes", `<img itemprop="image" srcset="/s.jpg 300w, /1.jpg 1200w, /m.jpg 600w">`,
		`<img class="u-photo" srcset="/s.jpg 300w, /1.jpg 1200w">`, `<img class="photo" srcset="/s.jpg 1x, /1.jpg 2x">`,
		`https://a.example/1.jpg`},
	{"url", `<a itemprop="url" href="/e/1">more</a>`, `<a class="u-url" href="/e/1">more</a>`,
		`<a class="url" href="/e/1">more</a>`, `https://a.example/e/1`},
	{"identity", `<meta itemprop="url" content="/e/1">`, `<data class="u-uid" value="https://a.example/e/1">`,
		`<a class="uid" href="https://a.example/e/1"></a>`, `a.example/e/1`},
	{
		"publishedAt", `<meta itemprop="datePublished" content="2026-09-01T10:00+02:00">`,
		`<time class="dt-published" datetime="2026-09-01T10:00+02:00">`, ``,
		`2026-09-01T08:00`,
	},
}

// fieldOf returns a field of an observation for comparison.
func fieldOf(t *testing.T, o collect.Observation, field string) string {
	t.Helper()
	d := o.Details
	asJSON := func(v any) string {
		data := must.Get(json.Marshal(v))(t)
		return string(data)
	}
	const form = "2006-01-02T15:04"
	first := d.Instances[0]
	switch field, _, _ = strings.Cut(field, " "); field {
	case "description":
		return d.Description
	case "shortDescription":
		return d.ShortDescription
	case "start":
		return d.Instances[len(d.Instances)-1].Occurrences[0].Start.Format(form)
	case "end":
		if first.Occurrences[0].End == nil {
			return ""
		}
		return first.Occurrences[0].End.Format(form)
	case "recurrence":
		text := string(d.Time.TemporalPattern)
		for _, instance := range d.Instances {
			text += " " + instance.Occurrences[0].Start.Format(form)
		}
		return text
	case "status":
		return string(first.Status)
	case "timezone":
		return d.Time.Timezone
	case "venue", "displayAddress", "coordinates", "online":
		return asJSON(d.Location)
	case "capacity", "sold":
		return asJSON(d.Capacity)
	case "organizer":
		return asJSON(d.Organizer)
	case "image":
		return d.PrimaryImage
	case "url":
		return d.PrimaryURL
	case "identity":
		_, key, _ := strings.Cut(o.Key, ":")
		return key
	case "publishedAt":
		if o.PublishedAt == nil {
			return ""
		}
		return o.PublishedAt.Format(form)
	}
	t.Fatalf("no such field: %s", field)
	return ""
}

var itemtype = regexp.MustCompile(`itemscope itemtype="https://schema\.org/(\w+)"`)

// asRDFa rewrites Microdata.
func asRDFa(microdata string) string {
	return strings.ReplaceAll(itemtype.ReplaceAllString(microdata, `typeof="$1"`), "itemprop=", "property=")
}

// Each field of the mapping table is read in each syntax that has it, with its origin.
func TestMapping(t *testing.T) {
	t.Parallel()
	schema := func(extra string) string {
		start := `<meta itemprop="startDate" content="2026-12-05T20:00">`
		if strings.Contains(extra, "startDate") {
			start = ""
		}
		return `<div itemscope itemtype="https://schema.org/MusicEvent"><h2 itemprop="name">Gig</h2>` +
			start + extra + `</div>`
	}
	for _, m := range mappings {
		for syntax, page := range map[collect.Syntax]string{
			collect.Microdata: schema(m.schema),
			collect.RDFa:      `<div vocab="https://schema.org/">` + asRDFa(schema(m.schema)) + `</div>`,
			collect.Microformats: `<article class="h-event"><h2 class="p-name">Gig</h2>` +
				unless(strings.Contains(m.h, "2026-12-06"),
					`<time class="dt-start" datetime="2026-12-05T20:00">5 December</time>`) +
				m.h + `</article>`,
			collect.HCalendar: `<div class="vevent"><h2 class="summary">Gig</h2>` +
				unless(strings.Contains(m.classic, "2026-12-06"),
					`<abbr class="dtstart" title="2026-12-05T20:00">5 December</abbr>`) +
				m.classic + `</div>`,
		} {
			if syntax == collect.Microformats && m.h == "" || syntax == collect.HCalendar && m.classic == "" {
				continue
			}
			t.Run(m.field+" in "+string(syntax), func(t *testing.T) {
				t.Parallel()
				result := read(t, "https://a.example/programme", "UTC", page)
				must.Equal(t, len(result.Observations), 1, "observations, notes %+v", result.Notes)
				o := result.Observations[0]
				got := fieldOf(t, o, m.field)
				assert.True(t, got == m.want && o.Details.Title == "Gig", "%q with %s, want %s", o.Details.Title, got, m.want)
				for _, origin := range o.Origins {
					assert.True(t, origin.Syntax == syntax && origin.Page == "https://a.example/programme" && origin.Path != "" &&
						origin.Element != "", "origin %+v", origin)
				}
			})
		}
	}
}

func unless(condition bool, text string) string {
	if condition {
		return ""
	}
	return text
}
