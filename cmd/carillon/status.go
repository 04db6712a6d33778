package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type statusCommand struct {
	remote
}

// serverStatus is the answer in JSON.
type serverStatus struct {
	Ready       bool                  `json:"ready"`
	Problem     string                `json:"problem,omitempty"`
	Warnings    []string              `json:"warnings,omitempty"`
	Projections []adminapi.Projection `json:"projections"`
	// Sources are absent where the server can't tell, or the token is an auditor's.
	Sources *adminapi.SourceStates `json:"sources,omitempty"`
}

// Run asks the server. It fails where the server is not ready or a projection has stopped, and says then which process
// runs each, where the server can tell.
func (c *statusCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	status := serverStatus{Ready: true}
	health, err := client.Ready(ctx)
	status.Warnings = health.Warnings
	var refused *adminclient.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable:
		status.Ready, status.Problem = false, refused.Message
	case err != nil:
		return err
	}
	if status.Projections, err = client.Projections(ctx); err != nil && status.Ready {
		return err // of a server that is not ready, whatever it can tell is shown
	}
	if states, err := client.SourceStates(ctx); err == nil {
		status.Sources = &states
	}
	stopped := false
	for _, p := range status.Projections {
		stopped = stopped || p.Stopped != ""
	}
	err = c.print(t.out, status, func(w io.Writer) {
		row(w, cmp.Or(status.Problem, "ready"))
		if status.Sources != nil {
			row(w, sourceCounts(*status.Sources))
		}
		for _, warning := range status.Warnings {
			row(w, warning)
		}
		if len(status.Projections) > 0 {
			row(w)
			projectionTable(w, status.Projections)
		}
	})
	switch {
	case err != nil:
		return err
	case !status.Ready:
		return errors.New("the server is not ready")
	case stopped:
		return errors.New("a projection has stopped: its readers see old data")
	}
	return nil
}

// sourceCounts says how many sources there are in each state.
func sourceCounts(s adminapi.SourceStates) string {
	parts := make([]string, 0, len(s.States))
	for _, state := range slices.Sorted(maps.Keys(s.States)) {
		parts = append(parts, fmt.Sprintf("%d %s", s.States[state], state))
	}
	if len(parts) == 0 {
		return "no sources"
	}
	return counted(s.Total, "source") + ": " + strings.Join(parts, ", ")
}
