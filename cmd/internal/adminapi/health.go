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
	"time"

	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/eventstore/reach"
)

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status     string   `json:"status"` // "ok"
	Components []string `json:"components,omitempty"`
	Warnings   []string `json:"warnings,omitempty"` // of a server that is ready all the same
}

// alive answers GET /healthz as long as the process runs.
func alive(*http.Request) (wire.Reply, error) { return wire.OK(Health{Status: "ok"}), nil }

// Unready is why something does not work that everybody may know who asks /readyz, for which no token is needed.
type Unready string

// Error implements error.
func (u Unready) Error() string { return string(u) }

// reason is what the answer tells of a failure besides its name: only what waiting does not mend, and what is no secret.
func reason(err error) string {
	if told, ok := errors.AsType[Unready](err); ok {
		return " (" + told.Error() + ")"
	}
	if errors.Is(err, eventstore.ErrRefused) {
		return " (refuses the credentials, or its certificate is not trusted)"
	}
	if lost, ok := errors.AsType[*reach.LostError](err); ok {
		return " (no answer since " + lost.Since.Format(time.RFC3339) + ")"
	}
	return ""
}

// ready answers GET /readyz: 200 where requests can be served, 503 with the names of what can't be reached. The reasons
// are mostly in the log only, because who asks needs no token.
func (a *API) ready(r *http.Request) (wire.Reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	components := a.Ready(ctx)
	names := slices.Sorted(maps.Keys(components))
	var down []string
	var causes []error
	for _, name := range names {
		if err := components[name]; err != nil {
			down = append(down, name+reason(err))
			causes = append(causes, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(down) > 0 {
		wire.Note(r.Context(), slog.String("down", strings.Join(down, ", ")))
		return wire.Reply{}, &wire.Failure{Kind: wire.Unavailable, Issue: "not ready: " + strings.Join(down, ", "), Cause: errors.Join(causes...)}
	}
	health := Health{Status: "ok", Components: names}
	if a.Warnings != nil {
		health.Warnings = a.Warnings()
	}
	return wire.OK(health), nil
}
