package app_test

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/app"
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
			assert.Is(t, err, eventstore.ErrUndecodable,
				"%s, %s: error … want one that is ErrUndecodable", model.Name, prefix)
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
	assert.Equal(t, strings.Contains(p.metrics(), "\ncarillon_eventstore_deleted_streams_total 1\n"), true,
		"the stream is not counted once")
}
