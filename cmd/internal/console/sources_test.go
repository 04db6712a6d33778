package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/sources"
	"carillon/query"
)

func (w *world) source(tb testing.TB, address string) uuid.UUID {
	tb.Helper()
	made, err := w.Commands.RegisterSource(tb.Context(), apitest.Operator, command.RegisterSource{
		Type:     "site",
		URL:      address,
		Timezone: "Europe/Rome",
	})
	if err != nil {
		tb.Fatal(err)
	}
	w.Await(tb, made.Position, sources.ReadModel.Name)
	return made.ID
}

func (w *world) showsSources(t *testing.T) {
	t.Helper()
	id := w.source(t, "https://example.org/programme")
	w.source(t, "https://example.net/calendar")
	b := w.operator(t)
	b.get(t, "/console/sources").expect(t, 200, "https://example.org/programme", "https://example.net/calendar",
		"2 sources", "registered 2")
	if p := b.get(t, "/console/sources?q=PROGRAMME&type=site&state=registered").expect(t, 200,
		"1 source"); strings.Contains(p.body, "example.net") {
		t.Error("the filter finds all")
	}
	for query, says := range map[string]string{"?state=x": "State must be one of", "?type=x": "Type must be one of",
		"?q=%00": "without NUL"} {
		b.get(t, "/console/sources"+query).expect(t, 400, says)
	}
	path := "/console/sources/" + id.String()
	b.get(t, path).expect(t, 200, "Europe/Rome", "never by itself", "Collect now", "Pause",
		"None: nobody visits it by itself")
	b.get(t, path+"/collect").expect(t, 200, "when its host has a free turn")
	b.post(t, path+"/collect").leadsTo(t, path+"?done=collecting")
	b.get(t, path+"?done=collecting").expect(t, 200, "when its host has a free turn")
	b.post(t, path+"/pause").expect(t, 400, "Reason must not be empty")
	b.post(t, path+"/pause", "reason", strings.Repeat("x", 1001)).expect(t, 400, "at most 1000 characters")
	b.post(t, path+"/pause", "reason", "a\x00b").expect(t, 400, "NUL characters")
	b.post(t, path+"/pause", "reason", "Its owner <b>objects</b>").leadsTo(t, path+"?done=paused")
	paused := b.get(t, path).expect(t, 200, "Its owner <b>objects</b>", "by operator", "Resume", "never: it is paused")
	if strings.Contains(paused.body, "<b>objects") {
		t.Error("a reason is not text")
	}
	b.get(t, path+"/resume").expect(t, 200, "It is paused because: Its owner")
	b.post(t, path+"/resume").leadsTo(t, path+"?done=resumed")
	for _, missing := range []string{uuid.NewString(), "x"} {
		b.get(t, "/console/sources/"+missing).expect(t, 404, "Not found")
		b.post(t, "/console/sources/"+missing+"/collect").expect(t, 404, "Not found")
	}
	w.signIn(t, w.key).get(t, "/console/sources").expect(t, 404, "Not found")
}

// triesSources: a trial reads a source like its collector: through the address guard, by robots.txt, and with limits.
func (w *world) triesSources(t *testing.T) {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			_, _ = rw.Write([]byte("User-agent: *\nDisallow: /private\n"))
		case "/programme":
			rw.Header().Set("Content-Type", "text/html")
			start := time.Now().Add(72 * time.Hour).UTC().Format(time.RFC3339)
			_, _ = fmt.Fprintf(rw,
				`<script type="application/ld+json">{"@type":"Event","name":"Jazz <script>","startDate":%q,"location":"Kajhallen",`+
					`"description":"\u202eturned"}</script>`, start)
		case "/empty":
			rw.Header().Set("Content-Type", "text/html")
			_, _ = rw.Write([]byte("<p>Nothing here, but words enough."))
		default:
			http.NotFound(rw, r)
		}
	}))
	t.Cleanup(site.Close)
	host := netip.MustParseAddrPort(strings.TrimPrefix(site.URL, "http://"))
	w.collectable = []netip.Prefix{netip.PrefixFrom(host.Addr(), 32)}
	w.admin = w.operatorsConsole(t, adminToken)
	b := w.operator(t)
	b.get(t, "/console/sources/try?where=https%3A%2F%2Fexample.org%2F&type=sitemap").expect(t, 200,
		`value="https://example.org/"`, "Nothing is stored")
	try := func(status int, where, kind string, says ...string) page {
		t.Helper()
		return b.post(t, "/console/sources/try", "where", where, "type", kind, "timezone", "Europe/Copenhagen").expect(t,
			status, says...)
	}
	found := try(200, site.URL+"/programme", "site", "1 event on 1 page", "Jazz", "Kajhallen", "json-ld", "Event[1].name",
		"script[1]", "Which element gave which field")
	if strings.Contains(found.body, "<script>") || strings.Contains(found.body, "\u202e") {
		t.Errorf("what the page says is not text:\n%s", found.shown(""))
	}
	try(200, site.URL+"/empty", "site", "0 events on 1 page", "no-events")
	try(409, site.URL+"/private", "site", "robots.txt", "What to do:")
	try(409, site.URL+"/gone", "site", "404")
	try(409, "http://10.0.0.1/", "site", "can't be read", "private address")
	try(409, "webcal://10.0.0.1/events.ics", "site", "can't be read", "private address")
	try(409, "http://169.254.169.254/latest/meta-data", "site", "can't be read")
	for where, says := range map[string]string{"": "Address must not be empty", "ftp://example.org/": "Address must be",
		"javascript:alert(1)": "Address must be", "https://user:pass@example.org/": "Address must not hold",
		"/x": "Address must be"} {
		try(400, where, "site", says)
	}
	try(400, "a b", "facebook", "Account must be")
	try(409, "@townhall", "facebook", "can't be read")
	try(400, "https://example.org", "x", "Type must be one of")
	b.post(t, "/console/sources/try", "where", site.URL, "type", "site", "timezone", "../../etc/passwd").expect(t, 400,
		"Default time zone must be an IANA name")
	if all, err := w.Queries.Sources(t.Context(), query.SourceFilter{}); err != nil || len(all) != 0 {
		t.Errorf("a trial leaves %d sources, %v", len(all), err)
	}
}
