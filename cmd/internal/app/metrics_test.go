package app_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/app"
	"carillon/command"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/auditors"
	"carillon/projections/projecttest"
)

var consumerLine = regexp.MustCompile(`(?m)^carillon_consumer_(lag_seconds|position)\{consumer="([^"]+)"\} (\S+)$`)

// Every consumer reports its position and catches up.
func TestMetrics_consumers(t *testing.T) {
	p := shared(t)
	url, arrived := p.endpoint(statuses(200))
	p.connect("crm", url, 0)
	p.publish()
	p.await(arrived)
	const processManagers = 5
	var metrics string
	there, current := map[string]bool{}, map[string]bool{}
	p.eventually("all consumers have caught up", func() bool { // each at some time: other tests publish as well
		metrics = p.metrics()
		for _, line := range consumerLine.FindAllStringSubmatch(metrics, -1) {
			there[line[2]] = true
			current[line[2]] = current[line[2]] || line[1] == "lag_seconds" && line[3] == "0"
		}
		for name := range there {
			if !current[name] {
				return false
			}
		}
		return len(there) == len(app.ReadModels())+processManagers
	})
	must.OK(t, p.operator().Verify(t.Context(), auditors.ReadModel.Name, 100))
	p.eventually("a verification is shown", func() bool {
		metrics = p.metrics()
		return strings.Contains(metrics, "\ncarillon_consumer_verified_timestamp_seconds{")
	})
}

// No read model passes over an event that it can't decode, in any of the streams that it reads.
func TestUnknownEventStops(t *testing.T) {
	t.Parallel()
	models := app.ReadModels()
	log := projecttest.New(t, models...)
	for _, model := range models {
		for _, prefix := range model.Filter.Prefixes {
			err := log.ProjectError(model, eventstore.Recorded{
				Stream: prefix + uuid.NewString(),
				Type:   "something.happened.v9",
				Data:   []byte("{}"),
			})
			assert.Is(t, err, eventstore.ErrUndecodable, "%s, %s: error … want one that is ErrUndecodable", model.Name, prefix)
		}
	}
}

// A destination's stream that another client deletes is counted once, and holds up no other destination.
func TestDeletedStreams(t *testing.T) {
	t.Parallel()
	p := newProcess(t, nil)
	url, arrived := p.endpoint(statuses(http.StatusOK, http.StatusOK))
	p.connect("kept", url, 0)
	gone := p.connect("gone", url, 0)
	store := must.Get(esdb.OpenUnix(filepath.Join(p.cfg.DataDir, "eventstore.sock"), slog.New(slog.DiscardHandler)))(t)
	defer func() { _ = store.Close() }()
	must.OK(t, store.Tombstone(t.Context(), "destination-"+gone))
	for range 2 {
		p.try(http.MethodDelete, destinations+"gone", nil)
	}
	p.publish()
	p.await(arrived)
	assert.True(t, strings.Contains(p.metrics(), "\ncarillon_eventstore_deleted_streams_total 1\n"),
		"the stream is not counted once")
}

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
