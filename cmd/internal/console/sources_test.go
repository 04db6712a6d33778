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

	"carillon/aggregates/organization"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

func (w *world) showsSources(t *testing.T) {
	t.Helper()
	id := w.Source(t, "https://example.org/programme", "Europe/Rome")
	w.Source(t, "https://example.net/calendar", "Europe/Rome")
	b := w.operator(t)
	b.get(t, "/console/sources").expect(t, 200, "https://example.org/programme", "https://example.net/calendar",
		"2 sources", "registered 2")
	b.get(t, "/console/sources?q=PROGRAMME&type=site&state=registered").expect(t, 200, "1 source").
		lacks(t, "example.net")
	for query, says := range map[string]string{"?state=x": "State must be one of", "?type=x": "Type must be one of",
		"?q=%00": "without NUL"} {
		b.get(t, "/console/sources"+query).expect(t, 400, says)
	}
	path := "/console/sources/" + id.String()
	b.get(t, path).expect(t, 200, "Europe/Rome", "never by itself", "Collect now", "Pause",
		"None: it is not visited by itself")
	b.get(t, path+"/collect").expect(t, 200, "when its host has a free turn")
	b.post(t, path+"/collect").leadsTo(t, path+"?done=collecting")
	b.get(t, path+"?done=collecting").expect(t, 200, "when its host has a free turn")
	b.post(t, path+"/pause").expect(t, 400, "Reason must not be empty")
	b.post(t, path+"/pause", "reason", strings.Repeat("x", 1001)).expect(t, 400, "at most 1000 characters")
	b.post(t, path+"/pause", "reason", "a\x00b").expect(t, 400, "NUL characters")
	b.post(t, path+"/pause", "reason", "Its owner <b>objects</b>").leadsTo(t, path+"?done=paused")
	b.get(t, path).expect(t, 200, "Its owner <b>objects</b>", "by operator", "Resume", "never: it is paused").
		lacks(t, "<b>objects")
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
		case "/list":
			rw.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(rw, "<h2>Events</h2><ul id=when>")
			for week := range 3 {
				_, _ = fmt.Fprintf(rw, "<li>%s, 20:00 <h3>Folk %d</h3></li>", time.Now().AddDate(0, 0, 60+7*week).Format(
					"Mon 2 January 2006"), week)
			}
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
	try(200, site.URL+"/programme", "site", "1 event on 1 page", "Jazz", "Kajhallen", "json-ld", "Event[1].name",
		"script[1]", "Which element gave which field").lacks(t, "<script>", "\u202e")
	try(200, site.URL+"/list", "site", "3 events on 1 page", "guessed-list", `name="event" value="#when > li"`,
		`name="title" value="h3"`, "mend them, and try again")
	try(200, site.URL+"/empty", "site", "0 events on 1 page", "no-events")
	try(409, site.URL+"/private", "site", "robots.txt", "What to do:")
	try(409, site.URL+"/gone", "site", "404")
	try(409, "webcal://10.0.0.1/events.ics", "site", "can't be read", "private address")
	try(400, "javascript:alert(1)", "site", "Address must be")
	try(400, "https://user:pass@example.org/", "site", "Address must not hold")
	try(400, "a b", "facebook", "Account must be")
	try(409, "@townhall", "facebook", "can't be read")
	try(400, "https://example.org", "x", "Type must be one of")
	assert.Equal(t, len(must.Get(w.Queries.Sources(t.Context(), query.SourceFilter{}))(t)), 0, "a trial leaves … sources")
}

// TestListsOfAll checks the lists of all organizations, destinations and sources, on separate consoles: each step
// adds to them.
func TestListsOfAll(t *testing.T) {
	w := openAlone(t)
	for _, step := range []struct {
		name string
		show func(*testing.T)
	}{
		{"system", w.showsTheSystem},
		{"trials", w.triesSources},
		{"sources", w.showsSources},
		{"record", w.showsAuditorsTheRecord},
		{"organizations", w.seesAllOrganizations},
		{"attachments", w.attachesSources},
	} {
		t.Run(step.name, step.show)
	}
}

// attachesSources: a source is attached by its address. Its events are shown before, through the address guard, and
// the typed values stay in the form.
func (w *world) attachesSources(t *testing.T) {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/programme" && r.URL.Path != "/own" {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(rw, `<script type="application/ld+json">{"@type":"Event","name":"Choir <b>","startDate":%q}`+
			`</script>`, time.Now().Add(72*time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(site.Close)
	host := netip.MustParseAddrPort(strings.TrimPrefix(site.URL, "http://"))
	w.collectable = []netip.Prefix{netip.PrefixFrom(host.Addr(), 32)}
	w.stopped = time.Now() // all trials are within a minute
	w.handler = w.organizationsConsole(t)
	known := w.Source(t, site.URL+"/programme", "Europe/Rome")
	made := w.namedFeed(t, "Concerts")
	feed := "/console/feeds/" + made.String()
	form, try, own := feed+"/sources/new", feed+"/sources/try", site.URL+"/own"
	b := w.signIn(t, w.key)
	b.get(t, feed).expect(t, 200, "Look at it")
	b.get(t, form+"?where=https%3A%2F%2Fexample.org&type=sitemap").expect(t, 200, `value="https://example.org"`)

	for _, path := range []string{try, form} { // this operator registers sources himself
		b.post(t, path, "where", own, "type", "site", "timezone", "Europe/Oslo").expect(t, 404,
			"Address is not that of a known source", "ask your operator", `value="`+own+`"`, `value="Europe/Oslo"`)
	}
	b.post(t, try, "where", site.URL+"/programme", "type", "site").expect(t, 200, "1 event on 1 page", "Choir <b>").
		lacks(t, "Choir <b>")
	b.post(t, form, "where", site.URL+"/programme", "type", "site").leadsTo(t, feed+"?done=attached")

	w.Commands.OrganizationSources = true
	b.post(t, try, "where", own, "type", "site").expect(t, 200, "1 event on 1 page")
	b.post(t, try, "where", site.URL+"/gone", "type", "site").expect(t, 409, "404", site.URL+"/gone")
	b.post(t, try, "where", "http://10.0.0.1/", "type", "site").expect(t, 409, "private address")
	b.post(t, try, "where", "", "type", "site").expect(t, 400, `id="refusal"`)
	b.post(t, form, "where", own, "type", "twitter").expect(t, 400, "must be site, sitemap")
	b.post(t, form, "source", "7", "type", "site").expect(t, 400, "Id of the source must be", `value="7"`)
	b.post(t, form, "where", own, "type", "site").leadsTo(t, feed+"?done=attached")
	attached, err := w.Queries.FeedSources(t.Context(), w.org, made)
	assert.True(t, err == nil && len(attached) == 2 && attached[0].Source == known && attached[1].Address == own,
		"attached %+v, %v; want the known source and %s", attached, err, own)

	w.limit(t, organization.LimitSourceAddressesPerDay, 1)
	b.post(t, form, "where", own+"?2", "type", "site").expect(t, 429, "Limit sourceAddressesPerDay", own+"?2")
	tries := 0
	for p := (page{status: 200}); p.status != 429 && tries < 20; tries++ {
		p = b.post(t, try, "where", own, "type", "site")
	}
	assert.True(t, tries <= 10, "%d trials within a minute", tries)
	all, err := w.Queries.Sources(t.Context(), query.SourceFilter{Text: "?2"})
	assert.True(t, err == nil && len(all) == 0, "beyond its limit the organization registered %v, %v", all, err)
	_, key := w.Organization(t, "Stranger")
	c := w.signIn(t, key)
	c.post(t, try, "where", own, "type", "site").expect(t, 404, "Not found")
	c.post(t, form, "where", own+"?3", "type", "site").expect(t, 404, "Not found")
}

// limit sets a limit of the organization.
func (w *world) limit(t *testing.T, limit organization.Limit, most int) {
	t.Helper()
	w.Limit(t, w.org, organization.Limits{limit: most})
}
