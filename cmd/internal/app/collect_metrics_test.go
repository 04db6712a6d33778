package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon/aggregates/source"
	"carillon/command"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/visiting"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var collectLabel = regexp.MustCompile(`(?m)^carillon_collect_\w+\{.*?(type|outcome|kind)="([^"]*)"`)

// The outcomes of visits are counted, by labels of few values, and each request names whom the owner of a site may
// write to.
func TestCollecting_metrics(t *testing.T) {
	p := shared(t) // of all tests on it this one alone collects
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		agent := r.UserAgent()
		assert.True(t, strings.HasPrefix(agent, "Carillon/") && strings.HasSuffix(agent, " (+mailto:events@example.org)"),
			"%s is asked for as %q", r.URL.Path, agent)
		if r.URL.Path != "/programme" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<script type="application/ld+json">{"@type":"Event","name":"Jazz","startDate":%q}</script>`,
			time.Now().Add(72*time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(server.Close)
	for _, s := range []command.RegisterSource{
		{Type: source.TypeSite, URL: server.URL + "/programme"}, {Type: source.TypeSite, URL: server.URL + "/gone"}, {
			Type:   source.TypeTwitter,
			Handle: "kajhallen",
		},
	} {
		made := must.Get(p.app.Commands.RegisterSource(t.Context(), command.Caller{Actor: "operator"}, s))(t)
		must.Get(p.app.Commands.CollectSource(t.Context(), command.Caller{Actor: "operator"},
			command.CollectSource{Source: made.ID}))(t)
	}
	var text string
	p.eventually("all visits are counted", func() bool {
		text = p.metrics()
		for _, line := range []string{
			`carillon_collect_visits_total{outcome="ok",type="site"} 1`,
			`carillon_collect_visits_total{outcome="http_status",type="site"} 1`,
			`carillon_collect_visits_total{outcome="needs_credentials",type="twitter"} 1`,
			`carillon_collect_visits_total{outcome="ok",type="tiktok"} 0`,
			`carillon_collect_observations_total{kind="new"} 1`, `carillon_collect_observations_total{kind="stale"} 0`,
			// one of them for robots.txt
			`carillon_collect_requests_seconds_count{outcome="ok"} 1`,
			`carillon_collect_requests_seconds_count{outcome="client_error"} 2`,
			`carillon_collect_due_seconds 0`, `carillon_collect_hosts_waiting 0`,
		} {
			if !strings.Contains(text, "\n"+line+"\n") {
				return false
			}
		}
		return true
	})
	assert.Equal(t, asked.Load(), 3, "requests")
	known := map[string][]string{
		"type": append(source.Types(), "other"), "outcome": append(fetch.Outcomes(), visiting.Outcomes()...),
		"kind": visiting.Kinds(),
	}
	for _, label := range collectLabel.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(known[label[1]], label[2]) {
			t.Errorf("unexpected label: %s", label[0])
		}
	}
}
