package collection

import (
	"context"
	"errors"
)

// How a visit has ended that did not fail for one of [Reasons].
const (
	outcomeOK          = "ok"        // the walk went through
	outcomeContinues   = "continues" // others of its host come first
	outcomePaused      = "paused"
	outcomeLost        = "lost"              // somebody else has gone on with the walk
	outcomeStopped     = "stopped"           // with the process
	outcomeTrouble     = "trouble"           // of our own, such as an event store that can't be reached
	outcomeCredentials = "needs_credentials" //nolint:gosec // it is none
	outcomeJavaScript  = "needs_javascript"
)

// Outcomes are all that Monitor.Visited is told, so that they may be labels of a metric.
func Outcomes() []string {
	return append([]string{
		outcomeOK, outcomeContinues, outcomePaused, outcomeLost, outcomeStopped, outcomeTrouble, outcomeCredentials,
		outcomeJavaScript,
	}, Reasons()...)
}

func (v *visit) outcomeOf(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, ErrLost), errors.Is(context.Cause(ctx), ErrLost):
		return outcomeLost
	case ctx.Err() != nil:
		return outcomeStopped
	case errors.Is(err, ErrPaused):
		return outcomePaused
	case err != nil:
		return outcomeTrouble
	}
	return v.outcome
}

// What a visit may find of a happening.
const (
	foundNew     = "new"
	foundRevised = "revised"
	foundStale   = "stale"
)

// Kinds are all that Monitor.Found is told.
func Kinds() []string { return []string{foundNew, foundRevised, foundStale} }

func (v *visit) tell(news Tally) {
	if v.Found == nil {
		return
	}
	for kind, n := range map[string]int{foundNew: news.New, foundRevised: news.Revised, foundStale: news.WentStale} {
		for range n {
			v.Found(kind)
		}
	}
}
