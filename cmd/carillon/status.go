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
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/config"
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
	// Sources are absent if the server does not know them, or the token is an auditor's.
	Sources *adminapi.SourceStates `json:"sources,omitempty"`
	// Seal is the last tree head of the log. It is absent if the server does not know it.
	Seal *adminapi.SealState `json:"seal,omitempty"`
}

// Run asks the server. It fails if the server is not ready or a projection has stopped, and then shows which process
// runs each, if the server knows it.
func (c *statusCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	status := serverStatus{Ready: true}
	health, err := client.Ready(ctx)
	status.Warnings = health.Warnings
	var refused *apiclient.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable:
		status.Ready, status.Problem = false, refused.Message
	case err != nil:
		return err
	}
	if status.Projections, err = client.Projections(ctx); err != nil && status.Ready {
		return err // of a server that is not ready, all that it answers is shown
	}
	if states, err := adminclient.Get[adminapi.SourceStates](ctx, client, "sources", "states"); err == nil {
		status.Sources = &states
	}
	if last, err := client.LastSeal(ctx); err == nil {
		status.Seal = &last
	}
	stopped, differs := false, false
	for _, p := range status.Projections {
		stopped = stopped || p.Stopped != ""
		differs = differs || p.Verified != nil && p.Verified.Differing > 0
	}
	err = c.print(t.out, status, func(w io.Writer) {
		paragraph(w, cmp.Or(status.Problem, "ready"))
		if status.Sources != nil {
			paragraph(w, sourceCounts(*status.Sources))
		}
		if status.Seal != nil {
			paragraph(w, sealLine(*status.Seal, time.Now()))
		}
		for _, warning := range status.Warnings {
			paragraph(w, warning)
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
	case differs:
		return errors.New("a read model differs from the log: its readers see what no event says")
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

const (
	progressOnTerminal = time.Second / 4
	progressInLog      = 10 * time.Second // if the output goes to a file
)

// statusLine says how far something is: on a terminal in one line that changes, else in a line now and then.
type statusLine struct {
	t        terminal
	terminal bool
	every    time.Duration
	shown    time.Time
	dirty    bool // the terminal's line has something
}

func newStatusLine(t terminal) *statusLine {
	l := &statusLine{t: t, terminal: config.IsTerminal(t.err), every: progressInLog}
	if l.terminal {
		l.every = progressOnTerminal
	}
	return l
}

// due reports whether it is time to show something else.
func (l *statusLine) due(at time.Time) bool { return at.Sub(l.shown) >= l.every }

func (l *statusLine) show(at time.Time, text string) {
	l.shown = at
	if l.terminal {
		_, _ = fmt.Fprintf(l.t.err, "\r\x1b[K%s", text)
		l.dirty = true
		return
	}
	_, _ = fmt.Fprintln(l.t.err, text)
}

// end clears the terminal's line.
func (l *statusLine) end() {
	if l.dirty {
		_, _ = fmt.Fprint(l.t.err, "\r\x1b[K")
	}
	l.dirty = false
}
