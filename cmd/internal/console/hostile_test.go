package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/destinations"
	"carillon/projections/items"
	"carillon/projections/sources"
	"carillon/query"
)

// hostile returns hostile texts: one of each kind, or all known ones in the nightly suite.
func hostile() []string {
	texts := []string{
		`"><script>alert(1)</script>`, `' autofocus onfocus='alert(1)`, `javascript:alert(1)`,
		`</textarea><script>alert(1)</script>`, `{{template "content"}}`,
		`<svg/onload=alert(1)>`, "\u202egnp.exe\u0000\u200b", "\u001b[31mred", "&lt;script&gt;alert(1)&lt;/script&gt;",
	}
	if !testing.Short() {
		texts = append(texts, `<script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`, `" onmouseover="alert(1)`,
			`</title><script>alert(1)</script>`, `</pre><script>alert(1)</script>`, `</svg><script>alert(1)</script>`,
			`</style><script>alert(1)</script>`, `<!--<script>alert(1)//-->`,
			`<svg><script href=data:,alert(1) />`, `<math><mi xlink:href="data:x,<script>alert(1)</script>">`,
			`<iframe srcdoc="<script>alert(1)</script>">`, `<iframe src=javascript:alert(1)>`,
			`<object data=javascript:alert(1)>`, `<embed src=javascript:alert(1)>`,
			`<a href=javascript:alert(1)>x</a>`, `JaVaScRiPt:alert(1)`, "java\nscript:alert(1)",
			`data:text/html,<script>alert(1)</script>`, `vbscript:msgbox(1)`,
			`<form action=https://evil.example><button>Sign in`, `<base href=https://evil.example/>`,
			`<meta http-equiv=refresh content="0;url=https://evil.example">`,
			`<link rel=stylesheet href=https://evil.example/x.css>`, `<style>@import 'https://evil.example'</style>`,
			`<img src=https://evil.example/pixel>`, `<video poster=https://evil.example>`,
			`<input autofocus onfocus=alert(1)>`, `<details open ontoggle=alert(1)>`, `<body onload=alert(1)>`,
			`<marquee onstart=alert(1)>`, `<x onclick=alert(1)>`,
			`{{.}}`, `{{"<script>"}}`, `${alert(1)}`, `<%= 1 %>`, `[[constructor.constructor('alert(1)')()]]`,
			"\u2066hidden\u2069", "zero\u200bwidth", "\u0000nul", "bell\u0007", "\ufeffmark", "&#60;script&#62;")
	}
	return append(texts, strings.Repeat("word", 250_000))
}

// harmless checks that a page does not contain unescaped hostile text.
func (p page) harmless(t *testing.T, what string) {
	t.Helper()
	for _, sign := range []string{"<script>", "<svg/", "<img src=x", "<iframe", "<object", "<embed", "<base",
		"<meta http-equiv=refresh", "<link rel=stylesheet href=https", "<math", "<marquee", "<details open ontoggle",
		"onerror=alert(1)>", `" onmouseover="`, `' autofocus`, `href="javascript`, `href="data:`, "<no value>"} {
		assert.True(t, !strings.Contains(p.body, sign), "%s: the page holds %q", what, sign)
	}
	// Typed values are kept unchanged.
	if strings.Contains(p.body, "<textarea") || strings.Contains(p.body, "You were signed out") {
		return
	}
	for _, unseen := range []string{"\u202e", "\u2066", "\u200b", "\u0000", "\u0007", "\u001b", "\ufeff"} {
		assert.True(t, !strings.Contains(p.body, unseen), "%s: the page holds %+q", what, unseen)
	}
	assert.True(t, len(p.body) <= 100_000, "%s: %d bytes", what, len(p.body))
}

// TestHostileTextsAreShownAsText: a payload, a name, a header and the answer of a receiver are text.
func TestHostileTextsAreShownAsText(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	by := w.by(w.org)
	texts := hostile()
	id := w.destination(t, "Plain", receiver(t, 500, strings.Join(texts[:len(texts)-1], "\n")))
	w.subscribe(t, id, "*")
	base := "/console/destinations/" + id.String()
	b.post(t, base+"/test").expect(t, 200, "500").harmless(t, "a test")
	published := 0
	for i, text := range texts {
		what := fmt.Sprintf("%d: %.40q", i, text)
		changed, err := w.Commands.ReviseDestination(t.Context(), by, renamed(id, text))
		if err == nil {
			w.Await(t, changed.Position, destinations.ReadModel.Name, audit.ReadModel.Name)
		}
		b.post(t, base+"/edit", "name", text, "url", "https://127.0.0.1:1/", "debounce", "0").harmless(t, what+", edited")
		for _, path := range []string{"/console/destinations", base, base + "/edit", base + "/delete"} {
			b.get(t, path).expect(t, 200).harmless(t, what)
		}
		b.post(t, "/console/destinations/new", "name", text, "url", text, "headers", text, "debounce", text, "externalId",
			text).harmless(t, what+", typed")
		b.get(t, "/console/sign-in?"+url.Values{"next": {text[:min(len(text), 500)]}, "done": {text}}.Encode()).harmless(t,
			what+", next")
		text = text[:min(len(text), 60_000)]
		data := must.Get(json.Marshal(map[string]string{"id": "n", "title": text}))(t)
		_, err = w.Commands.Publish(t.Context(), apitest.Operator, command.Publish{
			Type:         "news.item.added",
			Source:       "/feeds/x",
			Subject:      text[:min(len(text), 200)],
			Time:         time.Now(),
			Organization: w.org,
			Data:         data,
		})
		if err == nil {
			published++
		}
	}
	must.True(t, published >= len(texts)/2, "%d of %d were published", published, len(texts))
	must.Eventually(t, "all is delivered", func() bool {
		_, total, err := w.Queries.Deliveries(t.Context(), w.org, id, query.DeliveryFilter{Limit: 1}, time.Now())
		return err == nil && total == published
	})
	list := b.get(t, base+"/deliveries").expect(t, 200)
	list.harmless(t, "the list")
	w.hostilePages(t, b, id, texts)
	for _, found := range links.FindAllStringSubmatch(list.body, -1) {
		if strings.Contains(found[1], "/deliveries/") {
			b.get(t, found[1]).expect(t, 200).harmless(t, found[1])
			b.get(t, found[1]+"/replay").expect(t, 200).harmless(t, found[1])
		}
	}
}

// hostilePages checks the pages of events, of all deliveries, and of operators and auditors, with hostile texts.
func (w *world) hostilePages(t *testing.T, b *browser, destination uuid.UUID, texts []string) {
	t.Helper()
	operator := w.operator(t)
	source := w.Source(t, "https://example.org/programme", "Europe/Rome")
	for i, text := range texts {
		what := fmt.Sprintf("%d: %.40q", i, text)
		asked := url.Values{}
		for _, name := range []string{"q", "type", "feed", "status", "since", "before", "state", "organization", "who",
			"where", "timezone"} {
			asked.Set(name, text[:min(len(text), 500)])
		}
		for _, path := range []string{"/console/events", "/console/deliveries"} {
			b.get(t, path+"?q="+url.QueryEscape(text[:min(len(text), 500)])).asked().harmless(t, what+", "+path)
			b.get(t, path+"?"+asked.Encode()).asked().harmless(t, what+", "+path)
		}
		for _, path := range []string{"/console/organizations", "/console/sources", "/console/record",
			"/console/sources/try"} {
			operator.get(t, path+"?"+asked.Encode()).asked().harmless(t, what+", "+path)
		}
		at := "/console/sources/" + source.String()
		operator.post(t, at+"/pause", "reason", text).asked().harmless(t, what+", reason")
		operator.get(t, at).expect(t, 200).asked().harmless(t, what+", source")
		operator.post(t, "/console/sources/try", "where", text, "type", "facebook", "timezone",
			text[:min(len(text), 500)]).asked().harmless(t, what+", tried")
	}
	for from, at := range map[string]*browser{"/console/events": b, "/console/deliveries": b, "/console/record": operator,
		"/console/": operator} {
		at.get(t, from).expect(t, 200).asked().harmless(t, from)
	}
	operator.get(t, "/console/record/"+destination.String()).expect(t, 200).asked().harmless(t, "the record")
	for _, found := range links.FindAllStringSubmatch(b.get(t, "/console/events").body, -1) {
		if strings.Contains(found[1], "/events/") {
			b.get(t, found[1]).expect(t, 200).asked().harmless(t, found[1])
		}
	}
}

var typed = regexp.MustCompile(` value="[^"]*"`)

// asked returns a page without the values typed by its visitor, which are kept unchanged.
func (p page) asked() page {
	p.body = typed.ReplaceAllString(p.body, "")
	return p
}

// TestHostileFeedsAreShownAsText: names of feeds, and everything that sources say about an event, are text; an
// address that would run a script is not a link.
func TestHostileFeedsAreShownAsText(t *testing.T) {
	s := newScene(t)
	b := s.signIn(t, s.key)
	feed := "/console/feeds/" + s.names["feed"]
	texts := hostile()
	var last eventstore.Position
	recorded := 0
	for i, text := range texts {
		b.post(t, feed+"/edit", "name", text, "description", text, "enabled", "yes").asked().harmless(t,
			fmt.Sprintf("%d: a feed that is changed", i))
		b.get(t, feed).expect(t, 200).asked().harmless(t, fmt.Sprintf("%d: a feed", i))
		b.get(t, "/console/feeds").expect(t, 200).asked().harmless(t, fmt.Sprintf("%d: all feeds", i))
		b.post(t, feed+"/sources/new", "source", text, "type", text).expect(t, 400).asked().harmless(t,
			fmt.Sprintf("%d: a source that is attached", i))
		b.post(t, feed+"/items/"+s.names["item"]+"/feedback", "rating", text, "comment", text).asked().harmless(t,
			fmt.Sprintf("%d: feedback", i))
		if at, err := s.enemy(t, i, text); err == nil {
			last, recorded = at, recorded+1
		}
	}
	must.True(t, recorded >= len(texts)/2, "%d of %d events were recorded", recorded, len(texts))
	s.Await(t, last, items.ReadModel.Name)
	shown := map[string]bool{}
	must.Eventually(t, "the items are in the feed", func() bool {
		for number := 1; ; number++ {
			page := b.get(t, fmt.Sprintf("%s?page=%d", feed, number)).expect(t, 200)
			page.asked().harmless(t, "the feed")
			for _, found := range links.FindAllStringSubmatch(page.body, -1) {
				if at := found[1]; strings.Contains(at, "/items/") && !strings.HasSuffix(at, "/feedback") {
					shown[at] = true
				}
			}
			if !strings.Contains(page.body, `rel="next" href="`+feed+"?page=") {
				return len(shown) >= recorded
			}
		}
	})
	for at := range shown {
		b.get(t, at).expect(t, 200).asked().harmless(t, at)
	}
}

// enemy records an event of a source with the same hostile text in all fields.
func (s *scene) enemy(t *testing.T, number int, text string) (eventstore.Position, error) {
	t.Helper()
	text = strings.ReplaceAll(text[:min(len(text), 20_000)], "\u0000", "")
	now, key := time.Now().UTC(), fmt.Sprintf("%s: enemy %d", s.org, number)
	instance := happening.DeriveInstanceID(key, "")
	return s.observed(t, s.attached(t), key, text, happening.Details{
		Title:            text,
		ShortDescription: text,
		Description:      text,
		PrimaryImage:     text,
		PrimaryURL:       text,
		Location:         &happening.Location{DisplayAddress: text, Venue: &happening.Venue{Name: text, Address: text}},
		Organizer:        &happening.Organizer{Name: text},
		Instances: []happening.Instance{{ID: instance, Status: happening.Scheduled, Occurrences: []happening.Occurrence{
			{
				ID:     happening.DeriveOccurrenceID(instance, 0),
				Start:  time.Date(now.Year(), now.Month(), 1+number%27, 19, 0, 0, 0, time.UTC),
				Status: happening.Scheduled,
			},
		}}},
	})
}

// attached returns the source of the scene's feed.
func (s *scene) attached(t *testing.T) uuid.UUID {
	t.Helper()
	all, err := s.Queries.FeedSources(t.Context(), s.org, mustID(t, s.names["feed"]))
	must.True(t, err == nil && len(all) == 1, "%v %v", all, err)
	return all[0].Source
}

// TestHostileSourcesAreShownAsText: the trial of a hostile page, and the names of sources, are text.
func TestHostileSourcesAreShownAsText(t *testing.T) {
	w := open(t)
	texts := hostile()
	site := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, r *http.Request) {
		var number int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &number); err != nil || number >= len(texts) {
			http.NotFound(writer, r)
			return
		}
		text := strings.ToValidUTF8(texts[number][:min(len(texts[number]), 20_000)], "")
		event, err := json.Marshal(map[string]any{
			"@type": "Event", "name": "x " + text, "description": text, "image": text, "url": text,
			"startDate": "2030-06-05T20:00:00Z",
			"location":  map[string]any{"@type": "Place", "name": text, "address": text},
			"organizer": map[string]any{"name": text, "url": text},
		})
		if err != nil {
			panic(err)
		}
		writer.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(writer, `<title>%s</title><script type="application/ld+json">%s</script><p>%s</p>`,
			text, strings.ReplaceAll(string(event), "</", `<\/`), text)
	}))
	t.Cleanup(site.Close)
	w.collectable = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	w.admin = w.operatorsConsole(t, adminToken)
	operator := w.operator(t)
	read := 0
	for i, text := range texts {
		tried := operator.post(t, "/console/sources/try", "where", fmt.Sprintf("%s/%d", site.URL, i), "type", "site",
			"timezone", "").asked()
		tried.harmless(t, fmt.Sprintf("%d: a page that is tried", i))
		if strings.Contains(tried.body, "1 event on 1 page") {
			read++
		}
		operator.post(t, "/console/sources/new", "where", text, "type", "site", "timezone",
			text[:min(len(text), 500)]).asked().harmless(t, fmt.Sprintf("%d: a source that is added", i))
		address := "https://example.org/" + text[:min(len(text), 1000)]
		in := command.RegisterSource{Type: "site", URL: address}
		made, err := w.Commands.RegisterSource(t.Context(), apitest.Operator, in)
		if err != nil {
			continue
		}
		w.Await(t, made.Position, sources.ReadModel.Name)
		operator.get(t, "/console/sources/"+made.ID.String()).expect(t, 200).asked().
			harmless(t, fmt.Sprintf("%d: a source", i))
	}
	assert.True(t, read >= len(texts)/2, "%d of %d pages showed an event", read, len(texts))
	for page := 1; page <= 2; page++ {
		operator.get(t, fmt.Sprintf("/console/sources?page=%d", page)).expect(t, 200).asked().harmless(t,
			"the list of sources")
	}
	if _, total, err := w.Queries.SourcePage(t.Context(), query.SourceFilter{}, 10, 0); err != nil ||
		total < len(texts)/2 {
		t.Errorf("%d sources were registered, %v", total, err)
	}
}
