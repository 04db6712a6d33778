package structured_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// only returns the observation of a page with one block of JSON-LD.
func only(t *testing.T, timezone, block string) collect.Observation {
	t.Helper()
	result := read(t, "https://a.example/programme", timezone, `<script type="application/ld+json">`+block+`</script>`)
	must.Equal(t, len(result.Observations), 1, "observations, notes %+v", result.Notes)
	return result.Observations[0]
}

// event returns a block with an event that has these properties besides a name and a start.
func event(properties string) string {
	return `{"@context":"https://schema.org","@type":"Event","name":"Gig","startDate":"2026-12-05T20:00"` +
		properties + `}`
}

func TestStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, block string
		want        happening.Status
		start       string
	}{
		{"nothing said", event(``), happening.Scheduled, "2026-12-05T20:00"},
		{"scheduled", event(`,"eventStatus":"https://schema.org/EventScheduled"`), happening.Scheduled, "2026-12-05T20:00"},
		{"cancelled", event(`,"eventStatus":"http://schema.org/EventCancelled"`), happening.Cancelled, "2026-12-05T20:00"},
		{"cancelled, as Americans spell", event(`,"eventStatus":"EventCanceled"`), happening.Cancelled, "2026-12-05T20:00"},
		{"postponed", event(`,"eventStatus":{"@id":"schema:EventPostponed"}`), happening.Postponed, "2026-12-05T20:00"},
		{"postponed with its old date only", `{"@type":"Event","name":"Gig","eventStatus":"EventPostponed",` +
			`"previousStartDate":"2026-12-01T20:00"}`, happening.Postponed, "2026-12-01T20:00"},
		{"postponed with both dates", event(`,"eventStatus":"EventPostponed","previousStartDate":"2026-12-01T20:00"`),
			happening.Postponed, "2026-12-05T20:00"},
		{"rescheduled", event(`,"eventStatus":"EventRescheduled","previousStartDate":"2026-12-01T20:00"`),
			happening.Rescheduled, "2026-12-05T20:00"},
		{"an old date says it too", event(`,"previousStartDate":"2026-12-01T20:00"`), happening.Rescheduled,
			"2026-12-05T20:00"},
		{"an old date that is the new one", event(`,"eventStatus":"EventScheduled","previousStartDate":"2026-12-05T20:00"`),
			happening.Scheduled, "2026-12-05T20:00"},
		{"rescheduled and online", event(`,"eventStatus":["EventRescheduled","EventMovedOnline"]`), happening.Rescheduled,
			"2026-12-05T20:00"},
		{"moved online", event(`,"eventStatus":"EventMovedOnline"`), happening.Scheduled, "2026-12-05T20:00"},
		{"said by the title", `{"@type":"Event","name":"CANCELLED - Gig","eventStatus":"EventScheduled",` +
			`"startDate":"2026-12-05T20:00"}`, happening.Cancelled, "2026-12-05T20:00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := only(t, "UTC", tt.block)
			instance := o.Details.Instances[0]
			if instance.Status != tt.want || instance.Occurrences[0].Status != tt.want {
				t.Errorf("status %s of %s", instance.Status, instance.Occurrences[0].Status)
			}
			assert.Equal(t, instance.Occurrences[0].Start.Format("2006-01-02T15:04"), tt.start, "start")
			assert.Equal(t, o.Key, "page:a.example/programme|gig|", "the key changes with the status")
		})
	}
}

func TestLocation(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, properties, want string }{
		{"none", ``, `null`},
		{"a name", `,"location":"Town Hall"`, `{"venue":{"name":"Town Hall"},"displayAddress":"Town Hall"}`},
		{"an address", `,"location":"Memphis, TN, US"`, `{"displayAddress":"Memphis, TN, US"}`},
		{"a link", `,"location":"https://zoom.us/j/1"`, `{"online":{"platform":"Zoom","url":"https://zoom.us/j/1"},` +
			`"displayAddress":"Online"}`},
		{"the word", `,"location":"Online"`, `{"online":{"platform":"a.example","url":"https://a.example/programme"},` +
			`"displayAddress":"Online"}`},
		{"a platform's name", `,"location":{"@type":"Place","name":"Zoom","url":"https://us02web.zoom.us/j/1"}`,
			`{"online":{"platform":"Zoom","url":"https://us02web.zoom.us/j/1"},"displayAddress":"Online"}`},
		{"attendance alone", `,"url":"/e/1","eventAttendanceMode":"OnlineEventAttendanceMode"`,
			`{"online":{"platform":"a.example","url":"https://a.example/e/1"},"displayAddress":"Online"}`},
		{"moved online", `,"eventStatus":"EventMovedOnline","location":"Town Hall"`, `{"venue":{"name":"Town Hall"},` +
			`"online":{"platform":"a.example","url":"https://a.example/programme"},"displayAddress":"Town Hall"}`},
		{"attendance offline", `,"eventAttendanceMode":"https://schema.org/OfflineEventAttendanceMode"`, `null`},
		{"a place with an address in text", `,"location":{"@type":"Place","name":"Lynn Auditorium","address":"Lynn, MA, ` +
			`01901"}`, `{"venue":{"name":"Lynn Auditorium","address":"Lynn, MA, 01901"},"displayAddress":"Lynn Auditorium, ` +
			`Lynn, MA, 01901"}`},
		{"an address in its place", `,"location":{"@type":"PostalAddress","name":"Congress Centre",` +
			`"addressLocality":"Prague","addressCountry":"CZ"}`, `{"venue":{"name":"Congress Centre","address":"Prague, CZ"},` +
			`"displayAddress":"Congress Centre, Prague, CZ"}`},
		{"two places", `,"location":[{"@type":"Place","name":"One"},{"@type":"Place","name":"Two"}]`,
			`{"venue":{"name":"One"},"displayAddress":"One"}`},
		{"coordinates of the place itself", `,"location":{"@type":"Place","latitude":56.1,"longitude":10.2}`,
			`{"coordinates":{"lat":56.1,"lng":10.2}}`},
		{"entities", `,"location":{"@type":"Place","name":"Room &#039;B&#039; &amp; Bar"}`,
			`{"venue":{"name":"Room 'B' & Bar"},"displayAddress":"Room 'B' & Bar"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			must.OK(t, encoder.Encode(only(t, "UTC", event(tt.properties)).Details.Location))
			compare(t, b.String(), tt.want)
		})
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	tests := []struct{ properties, want string }{
		{``, `null`},
		{`,"offers":{"@type":"Offer","availability":"InStock"}`, `null`},
		{`,"maximumAttendeeCapacity":"1,200"`, `{"total":1200,"unlimited":false}`},
		{`,"maximumPhysicalAttendeeCapacity":50,"maximumVirtualAttendeeCapacity":100`, `{"total":150,"unlimited":false}`},
		{`,"maximumVirtualAttendeeCapacity":100`, `{"total":100,"unlimited":false}`},
		{`,"maximumAttendeeCapacity":20,"remainingAttendeeCapacity":0`, `{"total":20,"available":0,"unlimited":false}`},
		{`,"offers":[{"@type":"Offer","inventoryLevel":{"@type":"QuantitativeValue","value":3}},{"@type":"Offer",` +
			`"inventoryLevel":4}]`, `{"available":7,"unlimited":false}`},
		{`,"offers":{"@type":"Offer","availability":"https://schema.org/SoldOut"}`, `{"available":0,"unlimited":false}`},
		{`,"offers":{"@type":"AggregateOffer","offers":[{"availability":"SoldOut"},{"availability":"OutOfStock"}]}`,
			`{"available":0,"unlimited":false}`},
		{`,"offers":[{"@type":"Offer","availability":"SoldOut"},{"@type":"Offer","availability":"InStock"}]`, `null`},
		{`,"maximumAttendeeCapacity":"many"`, `null`},
	}
	for _, tt := range tests {
		got, err := json.Marshal(only(t, "UTC", event(tt.properties)).Details.Capacity)
		assert.True(t, err == nil && string(got) == tt.want, "%s gives %s, %v", tt.properties, got, err)
	}
	c := only(t, "UTC", `{"@type":"Event","name":"Gig (sold out)","startDate":"2026-12-05"}`).Details.Capacity
	assert.True(t, c != nil && c.Available != nil && *c.Available == 0, "a title that says sold out gives %+v", c)
}

func TestOrganizer(t *testing.T) {
	t.Parallel()
	tests := []struct{ value, want string }{
		{`"The Club"`, `{"name":"The Club"}`},
		{`"https://a.example/club"`, `null`},
		{`[{"@type":"Person"},{"@type":"Person","name":"Ann","telephone":"tel:+45 12"}]`,
			`{"name":"Ann","contact":"+45 12"}`},
		{`{"@type":"Organization","name":"Club","sameAs":"https://club.example","contactPoint":[{"@type":"ContactPoint",` +
			`"email":"a@club.example"}]}`, `{"name":"Club","url":"https://club.example","contact":"a@club.example"}`},
	}
	for _, tt := range tests {
		got, err := json.Marshal(only(t, "UTC", event(`,"organizer":`+tt.value)).Details.Organizer)
		assert.True(t, err == nil && string(got) == tt.want, "%s gives %s, %v", tt.value, got, err)
	}
}

func TestImagesAndLinks(t *testing.T) {
	t.Parallel()
	d := only(t, "UTC", event(`,"url":["/e/1?utm_source=x","https://b.example/"],
		"image":["https://a.example/a/page/","data:image/png;base64,AA","/1.jpg",{"@type":"ImageObject",`+
		`"url":"//cdn.example/2.jpg"},"/1.jpg"],
		"offers":"tickets.example.com/1","sameAs":["javascript:alert(1)","https://c.example/?a=1&amp;b=2"]`)).Details
	got := append([]string{d.PrimaryImage}, d.SupportingImages...)
	got = append(append(got, d.PrimaryURL), d.URLs...)
	want := []string{
		"https://a.example/1.jpg", "https://cdn.example/2.jpg",
		"https://a.example/e/1", "https://a.example/e/1", "https://b.example/", "https://tickets.example.com/1",
		"https://c.example/?a=1&b=2",
	}
	assert.Same(t, got, want)
}

func TestUnusualPageURL(t *testing.T) {
	t.Parallel()
	result := read(t, `https://a.example/?q="x"`, "", `<script type="application/ld+json">`+event(``)+`</script>`)
	if len(result.Observations) != 1 || result.Observations[0].Details.PrimaryURL != `https://a.example/?q="x"` {
		t.Errorf("got %s", outline(result.Observations))
	}
}

func TestTitles(t *testing.T) {
	t.Parallel()
	const rest = `"startDate":"2026-12-05"`
	tests := map[string]string{
		`{"@type":"Event","name":"<b>Rock</b> &amp; Roll&#8217;s <3",` + rest +
			`}`: "Rock & Roll’s <3",
		`{"@type":"Event","name":[{"@value":"Noche","@language":"es"},{"@value":"Night","@language":"en"}],` + rest +
			`}`: "Noche",
		`{"@type":"Event","name":[{"@value":"Noche","@language":"es"},"Nacht"],` + rest +
			`}`: "Nacht",
		`{"@type":"MusicGroup","name":"Foo Fighters","event":{"@type":"Event",` + rest +
			`}}`: "Foo Fighters",
		`{"@type":"ScreeningEvent","workPresented":{"@type":"Movie","name":"Jaws"},` + rest +
			`}`: "Jaws",
		`{"@type":"WebPage","name":"Home","mainEntity":{"@type":"Event","performer":[{"name":"Ann"},{"name":"Bob"}],` + rest +
			`}}`: "Ann",
	}
	for block, want := range tests {
		assert.Equal(t, only(t, "UTC", block).Details.Title, want, "%s is called", block)
	}
}

func TestInheritedPlace(t *testing.T) {
	t.Parallel()
	o := only(t, "", `{"@type":"TouristAttraction","name":"Musée Marmottan","address":{"@type":"PostalAddress",`+
		`"addressCountry":"FR"},"event":{"@type":"Event","name":"Monet","startDate":"2026-12-05"}}`)
	l := o.Details.Location
	assert.True(t, l != nil && l.Venue.Name == "Musée Marmottan" && o.Details.Time.Timezone == "Europe/Paris",
		"got %+v, %s", l, o.Details.Time.Timezone)
}

func TestDates(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, block, want string }{
		{"several starts", `{"@type":"Event","name":"Gig","startDate":["2026-12-05T20:00","2026-12-06T20:00"],` +
			`"endDate":["2026-12-05T22:00","2026-12-06T22:00"]}`, `
Gig [page:a.example/programme|gig|] recurring America/Chicago "Sat 5 Dec 2026, 20:00–22:00; Sun 6 Dec 2026, 20:00–22:00"
  scheduled: 2026-12-05T20:00/05T22:00
  scheduled: 2026-12-06T20:00/06T22:00`},
		{"an interval", `{"@type":"Event","name":"Gig","startDate":"2026-12-05/2026-12-06"}`, `
Gig [page:a.example/programme|gig|] singular America/Chicago "5–6 Dec 2026"
  scheduled: 2026-12-05T00:00/06T00:00 2026-12-06T00:00/07T00:00`},
		{"a plugin's spelling", `{"@type":"Event","name":"Gig","startDate":"2026-12-5T08-08-30-00",` +
			`"endDate":"2026-12-5T10-10-00-00"}`, `
Gig [page:a.example/programme|gig|] singular America/Chicago "Sat 5 Dec 2026, 08:30–10:00"
  scheduled: 2026-12-05T08:30/05T10:00`},
		{"numbers as an American means them", `{"@type":"Event","name":"Gig","startDate":"12/05/2026 8:00 PM"}`, `
Gig [page:a.example/programme|gig|] singular America/Chicago "Sat 5 Dec 2026, 20:00"
  scheduled: 2026-12-05T20:00`},
		{"UTC is shown at home", `{"@type":"Event","name":"Gig","startDate":"2026-12-06T02:00:00Z"}`, `
Gig [page:a.example/programme|gig|] singular America/Chicago "Sat 5 Dec 2026, 20:00"
  scheduled: 2026-12-05T20:00`},
		{"months of a fair", `{"@type":"Event","name":"Fair","startDate":"2026-12-05","endDate":"2027-02-05"}`, `
Fair [page:a.example/programme|fair|] ongoing America/Chicago "5 Dec 2026 – 5 Feb 2027"
  scheduled: 2026-12-05T00:00/06T00:00 2026-12-06T00:00/07T00:00 2026-12-07T00:00/08T00:00 2026-12-08T00:00/09T00:00 ` +
			`… 63 in all`},
		{"a schedule with the event's own dates and times", `{"@type":"Event","name":"Class",` +
			`"startDate":"2026-12-01T18:00","endDate":"2026-12-01T19:00","duration":"PT1H",` +
			`"eventSchedule":{"@type":"Schedule","repeatFrequency":"weekly","repeatCount":2}}`, `
Class [page:a.example/programme|class|] recurring America/Chicago "Tue 1 Dec 2026, 18:00–19:00; Tue 8 Dec 2026, ` +
			`18:00–19:00"
  scheduled: 2026-12-01T18:00/01T19:00
  scheduled: 2026-12-08T18:00/08T19:00`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			compare(t, outline([]collect.Observation{only(t, "America/Chicago", tt.block)}), tt.want)
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	const detail = "<title>Gig | A</title>"
	tests := []struct{ name, head, block, want string }{
		{"its own URL", "", event(`,"url":"http://www.a.example/e/1/?utm_source=x"`), "url:a.example/e/1"},
		{"its URL before its id", "", event(`,"@id":"https://a.example/id/1","url":"/e/1"`), "url:a.example/e/1"},
		{"an id that is a URL", "", event(`,"@id":"https://a.example/e/1#event"`), "url:a.example/e/1"},
		{"an id that is none", "", event(`,"@id":"urn:uuid:1"`), "id:urn:uuid:1"},
		{"a blank node's id", "", event(`,"@id":"_:b0"`), "page:a.example/programme|gig|"},
		{"a template's id", "", event(`,"@id":"#event"`), "page:a.example/programme|gig|"},
		{"an id of its own on the page", "", event(`,"@id":"#gig-12"`), "url:a.example/programme#gig-12"},
		{"the page's URL, whatever the page calls itself", "<title>Programme</title>", event(`,"url":"/programme"`),
			"url:a.example/programme"},
		{"the page's URL on its own page", detail, event(`,"url":"/programme"`), "url:a.example/programme"},
		{"nothing on its own page", detail, event(``), "url:a.example/programme"},
		{"the page's canonical URL", detail + `<link rel="canonical" href="/e/1">`, event(``), "url:a.example/e/1"},
		{"a canonical URL of others", detail + `<link rel="canonical" href="https://b.example/e/1">`, event(``),
			"url:a.example/programme"},
		{"the front page in the place of a URL", "", event(`,"url":"https://a.example/"`), "page:a.example/programme|gig|"},
		{"an identifier", "", event(`,"identifier":{"@type":"PropertyValue","propertyID":"eid","value":"7"}`),
			"id:a.example|eid|7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			result := read(t, "https://a.example/programme", "",
				fmt.Sprintf(`<html><head>%s<script type="application/ld+json">%s</script></head></html>`, tt.head, tt.block))
			if len(result.Observations) != 1 || result.Observations[0].Key != tt.want {
				t.Errorf("got %s", outline(result.Observations))
			}
		})
	}
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 60)
	d := only(t, "UTC", event(`,"description":"`+long+`"`)).Details
	if n := len([]rune(d.ShortDescription)); n > 200 || n < 190 || !strings.HasSuffix(d.ShortDescription, "word…") {
		t.Errorf("short description %q", d.ShortDescription)
	}
	d = only(t, "UTC", event(`,"description":"`+long+`","disambiguatingDescription":"Short &amp; sweet"`)).Details
	assert.Equal(t, d.ShortDescription, "Short & sweet", "short description")
	if d = only(t, "UTC", event(``)).Details; d.Description != "" || d.ShortDescription != "" {
		t.Errorf("out of nothing: %q, %q", d.Description, d.ShortDescription)
	}
}
