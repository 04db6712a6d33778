//go:build nightly

package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"carillon/cmd/internal/adminapi"
)

// operatorLooks are the pages beside the admin API, auditorLooks the ones that auditors see.
var (
	operatorLooks = []look{
		{
			name:  "operators-sign-in",
			path:  "/console/sign-in",
			shows: []string{"Admin or auditor's token"},
			out:   true,
		},
		{
			name:  "operators-overview",
			path:  "/console/",
			shows: []string{"Overview", "deliveries", "75 s", "Old newsletter", "Sources", "Disk"},
			press: "registered",
			then:  []string{"example.org"},
		},
		{
			name:  "organizations",
			path:  "/console/organizations",
			shows: []string{"Town hall", "1 organization"},
			press: "Town hall",
			then:  []string{"Failing now"},
		},
		{
			name:  "inside",
			path:  "/console/organizations/{org}/destinations/{works}",
			shows: []string{"Town hall", "Ticket shop", "Time line"},
			press: "Events",
			then:  []string{"concert/2"},
		},
		{
			name:  "sources",
			path:  "/console/sources",
			shows: []string{"https://example.org/programme", "Its owner objects", "paused"},
			press: "paused 1",
			then:  []string{"1 source"},
		},
		{
			name:  "new-source",
			path:  "/console/sources/new?where=https://example.org/fair&type=site&timezone=Europe/Rome",
			shows: []string{"Add a source", "Try it first"},
			press: "Add",
			then:  []string{"The source is registered.", "https://example.org/fair", "Europe/Rome"},
		},
		{
			name:  "source",
			path:  "/console/sources/{source}",
			shows: []string{"https://example.org/programme", "Europe/Rome", "Collect now"},
			press: "Collect now",
			then:  []string{"Collect it now?"},
		},
		{
			name:  "collect",
			path:  "/console/sources/{source}/collect",
			shows: []string{"when its host has a free turn"},
			press: "Collect now",
			then:  []string{"when its host has a free turn."},
		},
		{name: "pause", path: "/console/sources/{source}/pause", shows: []string{"until it is resumed", "Why"}},
		{
			name:  "resume",
			path:  "/console/sources/{paused}/resume",
			shows: []string{"Its owner objects"},
			press: "Resume",
			then:  []string{"The source is resumed"},
		},
		{
			name:  "try",
			path:  "/console/sources/try?where={programme}&type=site&timezone=Europe/Rome",
			shows: []string{"Nothing is stored"},
			press: "Try it",
			then:  []string{"2 events on 1 page", "Jazz on the roof", "Which element gave which field"},
		},
		{
			name:  "system",
			path:  "/console/system",
			shows: []string{"Consumers", "v1.2.3", "CARILLON_HTTP_ADDR", "being rebuilt", "nowhere"},
			press: "Rebuild",
			then:  []string{"Rebuild deliveries?"},
		},
		{
			name:  "rebuild",
			path:  "/console/system/items/rebuild",
			shows: []string{"Rebuild items?"},
			press: "Rebuild",
			then:  []string{"The current one serves"},
		},
		{
			name:  "record",
			path:  "/console/record",
			shows: []string{"Ticket shop", "Town hall", "Export all"},
			press: "Ticket shop",
			then:  []string{"its first secret"},
		},
		{
			name:  "recorded",
			path:  "/console/record/{works}",
			shows: []string{"Ticket shop", "Time line", "its first secret", "Export as NDJSON"},
		},
		{
			name:  "changes",
			path:  "/console/record/changes?kind=destination",
			shows: []string{"destination created", "Ticket shop", "Export as NDJSON"},
		},
		{name: "operators-missing", path: "/console/organizations/none/", shows: []string{"There is nothing here."}},
	}
	auditorLooks = []look{
		{
			name:  "auditors-record",
			path:  "/console/record",
			shows: []string{"Ticket shop", "Town hall"},
			press: "Ticket shop",
			then:  []string{"its first secret"},
		},
		{name: "auditors-system", path: "/console/system", shows: []string{"Consumers", "75 s"}},
	}
)

const programme = `<title>Programme</title><script type="application/ld+json">[
	{"@type":"Event","name":"Jazz on the roof","startDate":"2030-06-05T20:00","endDate":"2030-06-05T23:00",
		"location":"Kajhallen, Copenhagen","description":"Three sets, and the sun goes down behind the band.","url":"/jazz"},
	{"@type":"Event","name":"Quiz night","startDate":"2030-06-07T19:00","location":"Town hall","url":"/quiz"}]</script>`

// TestOperatorsPagesInBrowser looks at the pages of operators and auditors.
func TestOperatorsPagesInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	s := openAlone(t).scene(t) // it looks at lists of all organizations
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/programme" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(programme))
	}))
	t.Cleanup(site.Close)
	s.collectable = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s.admin = s.operatorsConsole(t, adminToken)
	s.lives(t)
	paused := s.source(t, "https://example.net/calendar")
	s.names["org"], s.names["programme"] = s.org.String(), site.URL+"/programme"
	s.names["source"], s.names["paused"] = s.source(t, "https://example.org/programme").String(), paused.String()
	behind, none := 75.0, 0.0
	consumers := []adminapi.Projection{
		{
			Name:      "deliveries",
			Kind:      "readModel",
			Position:  "52077/52077",
			Events:    2211,
			Behind:    &behind,
			Process:   "town:4711",
			UpdatedAt: s.now(),
		},
		{
			Name:      "feeds",
			Kind:      "readModel",
			Position:  "52077/52077",
			Events:    3,
			Behind:    &none,
			Process:   "town:4711",
			UpdatedAt: s.now(),
		},
		{
			Name:      "items",
			Kind:      "readModel",
			Position:  "52077/52077",
			Events:    30_412,
			Behind:    &none,
			Process:   "town:4711",
			UpdatedAt: s.now(),
		},
		{
			Name:      "health",
			Kind:      "readModel",
			Position:  "52077/52077",
			Events:    1,
			Behind:    &none,
			Process:   "town:4711",
			UpdatedAt: s.now(),
			Rebuild:   &adminapi.Rebuild{Done: 40, Total: 100},
		},
		{
			Name:      "dispatcher",
			Kind:      "process",
			Position:  "52077/52077",
			Events:    5,
			UpdatedAt: s.now(),
		},
	}
	server := httptest.NewServer(s.admin)
	t.Cleanup(server.Close)
	b := newTab(t, server.URL, "")
	operator := s.operator(t)
	operator.post(t, "/console/sources/"+paused.String()+"/pause", "reason", "Its owner objects").leadsTo(t,
		"/console/sources/"+paused.String()+"?done=paused")
	auditor, _ := s.auditor(t)
	look := func(looks []look, cookie string) {
		for _, l := range looks {
			t.Run(l.name, func(t *testing.T) {
				s.projections.set(consumers...)
				if b.signedIn(t, cookie); l.out {
					b.signedIn(t, "")
				}
				l.try(t, b, s.at(t, l.path))
			})
		}
	}
	look(operatorLooks, operator.cookie)
	look(auditorLooks, auditor.cookie)
}
