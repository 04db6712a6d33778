package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adminapi"
)

// consumersOf is what a server says of its consumers.
type consumersOf []adminapi.Projection

func (c consumersOf) Status(context.Context) ([]adminapi.Projection, error) {
	if c == nil {
		return nil, errors.New("postgres is away")
	}
	return c, nil
}

func (consumersOf) Rebuild(context.Context, string) error { return adminapi.ErrNoProjection }

func TestStatusOfAServerThatIsNotReadySaysWhoRunsWhat(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		consumers consumersOf
		want      []string
	}{
		"nobody runs one": {
			consumersOf{{Name: "items", Kind: "readModel", Process: "alpha:17"}, {Name: "dispatcher", Kind: "process"}},
			[]string{"not ready: projection dispatcher (no process runs it)", "alpha:17", "NOT RUNNING", "No process runs dispatcher"},
		},
		"it can't tell": {nil, []string{"not ready: projection dispatcher (no process runs it)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(adminapi.New(adminapi.Dependencies{
				Projections: tt.consumers, Token: "hunter2", Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
				Ready: func(context.Context) map[string]error {
					return map[string]error{"projection dispatcher": adminapi.Unready("no process runs it")}
				},
			}))
			t.Cleanup(server.Close)
			code, out, _ := runIn(t.Context(), "", "status", "--data-dir", t.TempDir(), "--admin-token", "hunter2",
				"--admin-addr", strings.TrimPrefix(server.URL, "http://"))
			if code != 1 {
				t.Errorf("exit %d, want 1", code)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("the answer lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

func TestSourceCounts(t *testing.T) {
	t.Parallel()
	for want, states := range map[string]adminapi.SourceStates{
		"no sources":                 {},
		"1 source: 1 paused":         {Total: 1, States: map[string]int{"paused": 1}},
		"3 sources: 1 failing, 2 ok": {Total: 3, States: map[string]int{"ok": 2, "failing": 1}},
	} {
		if got := sourceCounts(states); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
