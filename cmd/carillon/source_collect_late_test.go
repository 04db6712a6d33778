//go:build nightly

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"carillon/cmd/internal/config"
)

// The read model of sources is late: its earlier state is not shown as the result of the visit.
func TestSourceCollectWaitsForALateList(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	start := time.Now().Add(72 * time.Hour).UTC().Format(time.RFC3339)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<script type="application/ld+json">{"@type":"Event","name":"Jazz","startDate":%q}</script>`, start)
	}))
	t.Cleanup(server.Close)
	source := s.ok("source", "add", "site", server.URL+"/programme")
	standstill, err := s.app.Queries.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = standstill.Rollback(context.WithoutCancel(t.Context())) }()
	// It can be read.
	if _, err := standstill.Exec(t.Context(), "LOCK TABLE sources.sources IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	code, errors := make(chan int, 1), ""
	go func() {
		ended, _, said := s.run("source", "collect", source, "--wait")
		errors = said
		code <- ended
	}()
	select {
	case <-code:
		t.Fatalf("it does not wait: %s", errors)
	case <-time.After(5 * time.Second): // the server answers after two
	}
	if err := standstill.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != 0 {
		t.Errorf("exit %d\n%s", got, errors)
	}
}
