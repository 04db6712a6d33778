package app_test

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"carillon/eventstore/esdb"
	"carillon/eventstore/storetest/must"
)

// A destination's stream that another client deletes is counted once, and holds up no other destination.
func TestDeletedStreams(t *testing.T) {
	t.Parallel()
	p := newProcess(t, nil)
	url, arrived := p.endpoint(statuses(http.StatusOK, http.StatusOK))
	p.connect("kept", url, 0)
	gone := p.connect("gone", url, 0)
	store, err := esdb.OpenUnix(filepath.Join(p.cfg.DataDir, "eventstore.sock"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	must.OK(t, store.Tombstone(t.Context(), "destination-"+gone))
	for range 2 {
		p.try(http.MethodDelete, destinations+"gone", nil)
	}
	p.publish()
	p.await(arrived)
	if !strings.Contains(p.metrics(), "\ncarillon_eventstore_deleted_streams_total 1\n") {
		t.Error("the stream is not counted once")
	}
}
