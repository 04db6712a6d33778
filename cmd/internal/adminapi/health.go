package adminapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"carillon/cmd/internal/wire"
)

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status     string   `json:"status"` // "ok"
	Components []string `json:"components,omitempty"`
}

// alive answers as long as the process does.
func alive(*http.Request) (wire.Reply, error) { return wire.OK(Health{Status: "ok"}), nil }

// ready answers whether requests can be served: 503 names what can't be reached. Why is in the log, because whoever
// asks need not have a token.
func (a *API) ready(r *http.Request) (wire.Reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	components := a.Ready(ctx)
	names := slices.Sorted(maps.Keys(components))
	var down []string
	var causes []error
	for _, name := range names {
		if err := components[name]; err != nil {
			down = append(down, name)
			causes = append(causes, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(down) > 0 {
		wire.Note(r.Context(), slog.String("down", strings.Join(down, ", ")))
		return wire.Reply{}, &wire.Failure{Kind: wire.Unavailable, Issue: "not ready: " + strings.Join(down, ", "), Cause: errors.Join(causes...)}
	}
	return wire.OK(Health{Status: "ok", Components: names}), nil
}
