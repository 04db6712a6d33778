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
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/feeds"
	"carillon/projections/organizations"
	"carillon/query"
)

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
	known := w.source(t, site.URL+"/programme")
	made, err := w.Commands.CreateFeed(t.Context(), command.Caller{Organization: w.org, RequestID: uuid.New()},
		command.CreateFeed{Name: "Concerts", Description: "In town"})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, made.Position, feeds.ReadModel.Name)
	feed := "/console/feeds/" + made.ID.String()
	form, try, own := feed+"/sources/new", feed+"/sources/try", site.URL+"/own"
	b := w.signIn(t, w.key)
	b.get(t, feed).expect(t, 200, "Look at it")
	b.get(t, form+"?where=https%3A%2F%2Fexample.org&type=sitemap").expect(t, 200, `value="https://example.org"`)

	for _, path := range []string{try, form} { // this operator registers sources himself
		b.post(t, path, "where", own, "type", "site", "timezone", "Europe/Oslo").expect(t, 404,
			"Address is not that of a known source", "ask your operator", `value="`+own+`"`, `value="Europe/Oslo"`)
	}
	found := b.post(t, try, "where", site.URL+"/programme", "type", "site").
		expect(t, 200, "1 event on 1 page", "Choir <b>")
	if strings.Contains(found.body, "Choir <b>") {
		t.Error("an event's name is not text")
	}
	b.post(t, form, "where", site.URL+"/programme", "type", "site").leadsTo(t, feed+"?done=attached")

	w.Commands.OrganizationSources = true
	b.post(t, try, "where", own, "type", "site").expect(t, 200, "1 event on 1 page")
	b.post(t, try, "where", site.URL+"/gone", "type", "site").expect(t, 409, "404", site.URL+"/gone")
	b.post(t, try, "where", "http://10.0.0.1/", "type", "site").expect(t, 409, "private address")
	for _, where := range []string{"", "/x", "ftp://example.org/", "https://user:pass@example.org/"} {
		b.post(t, try, "where", where, "type", "site").expect(t, 400, `id="refusal"`)
	}
	b.post(t, form, "where", own, "type", "twitter").expect(t, 400, "must be site, sitemap")
	b.post(t, form, "source", "7", "type", "site").expect(t, 400, "Id of the source must be", `value="7"`)
	b.post(t, form, "where", own, "type", "site").leadsTo(t, feed+"?done=attached")
	attached, err := w.Queries.FeedSources(t.Context(), w.org, made.ID)
	if err != nil || len(attached) != 2 || attached[0].Source != known || attached[1].Address != own {
		t.Errorf("attached %+v, %v; want the known source and %s", attached, err, own)
	}

	w.limit(t, organization.LimitSourceAddressesPerDay, 1)
	b.post(t, form, "where", own+"?2", "type", "site").expect(t, 429, "Limit sourceAddressesPerDay", own+"?2")
	tries := 0
	for p := (page{status: 200}); p.status != 429 && tries < 20; tries++ {
		p = b.post(t, try, "where", own, "type", "site")
	}
	if tries > 10 {
		t.Errorf("%d trials within a minute", tries)
	}
	all, err := w.Queries.Sources(t.Context(), query.SourceFilter{Text: "?2"})
	if err != nil || len(all) != 0 {
		t.Errorf("beyond its limit the organization registered %v, %v", all, err)
	}
	_, key := w.Organization(t, "Stranger")
	c := w.signIn(t, key)
	c.post(t, try, "where", own, "type", "site").expect(t, 404, "Not found")
	c.post(t, form, "where", own+"?3", "type", "site").expect(t, 404, "Not found")
}

// limit sets a limit of the organization.
func (w *world) limit(t *testing.T, limit organization.Limit, most int) {
	t.Helper()
	changed, err := w.Commands.SetLimits(t.Context(), apitest.Operator, command.SetLimits{
		Organization: w.org,
		Limits:       organization.Limits{limit: most},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, changed.Position, organizations.ReadModel.Name)
}
