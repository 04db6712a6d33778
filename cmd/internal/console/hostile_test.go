package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/destinations"
	"carillon/query"
)

// hostile returns hostile texts: one of each kind, or all known ones in the nightly suite.
func hostile() []string {
	if testing.Short() {
		return []string{
			`"><script>alert(1)</script>`, `' autofocus onfocus='alert(1)`, `javascript:alert(1)`,
			`</textarea><script>alert(1)</script>`, `{{template "content"}}`,
			`<svg/onload=alert(1)>`, "\u202egnp.exe\u0000\u200b", "\u001b[31mred", "&lt;script&gt;alert(1)&lt;/script&gt;",
			strings.Repeat("word", 250_000),
		}
	}
	return []string{
		`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`,
		`" onmouseover="alert(1)`, `' autofocus onfocus='alert(1)`,
		`</title><script>alert(1)</script>`, `</textarea><script>alert(1)</script>`, `</pre><script>alert(1)</script>`,
		`</svg><script>alert(1)</script>`,
		`</style><script>alert(1)</script>`, `<!--<script>alert(1)//-->`, `<svg/onload=alert(1)>`,
		`<svg><script href=data:,alert(1) />`, `<math><mi xlink:href="data:x,<script>alert(1)</script>">`,
		`<iframe srcdoc="<script>alert(1)</script>">`, `<iframe src=javascript:alert(1)>`,
		`<object data=javascript:alert(1)>`, `<embed src=javascript:alert(1)>`,
		`<a href=javascript:alert(1)>x</a>`, `javascript:alert(1)`, `JaVaScRiPt:alert(1)`, "java\nscript:alert(1)",
		`data:text/html,<script>alert(1)</script>`, `vbscript:msgbox(1)`,
		`<form action=https://evil.example><button>Sign in`, `<base href=https://evil.example/>`,
		`<meta http-equiv=refresh content="0;url=https://evil.example">`,
		`<link rel=stylesheet href=https://evil.example/x.css>`, `<style>@import 'https://evil.example'</style>`,
		`<img src=https://evil.example/pixel>`, `<video poster=https://evil.example>`,
		`<input autofocus onfocus=alert(1)>`, `<details open ontoggle=alert(1)>`, `<body onload=alert(1)>`,
		`<marquee onstart=alert(1)>`, `<x onclick=alert(1)>`,
		`{{.}}`, `{{template "content"}}`, `{{"<script>"}}`, `${alert(1)}`, `<%= 1 %>`,
		`[[constructor.constructor('alert(1)')()]]`,
		"\u202egnp.exe", "\u2066hidden\u2069", "zero\u200bwidth", "\u0000nul", "bell\u0007", "\u001b[31mred", "\ufeffmark",
		"&lt;script&gt;alert(1)&lt;/script&gt;", "&#60;script&#62;", strings.Repeat("word", 250_000),
	}
}

// harmless checks that a page does not contain unescaped hostile text.
func (p page) harmless(t *testing.T, what string) {
	t.Helper()
	for _, sign := range []string{"<script>", "<svg/", "<img src=x", "<iframe", "<object", "<embed", "<base",
		"<meta http-equiv=refresh", "<link rel=stylesheet href=https", "<math", "<marquee", "<details open ontoggle",
		"onerror=alert(1)>", `" onmouseover="`, `' autofocus`, `href="javascript`, `href="data:`, "<no value>"} {
		if strings.Contains(p.body, sign) {
			t.Errorf("%s: the page holds %q", what, sign)
		}
	}
	// Typed values are kept unchanged.
	if strings.Contains(p.body, "<textarea") || strings.Contains(p.body, "You were signed out") {
		return
	}
	for _, unseen := range []string{"\u202e", "\u2066", "\u200b", "\u0000", "\u0007", "\u001b", "\ufeff"} {
		if strings.Contains(p.body, unseen) {
			t.Errorf("%s: the page holds %+q", what, unseen)
		}
	}
	if len(p.body) > 100_000 {
		t.Errorf("%s: %d bytes", what, len(p.body))
	}
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
	if published < len(texts)/2 {
		t.Fatalf("%d of %d were published", published, len(texts))
	}
	apitest.Eventually(t, "all is delivered", func() bool {
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
	source := w.source(t, "https://example.org/programme")
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
