package visiting

import (
	"context"
	"errors"
)

// Outcomes of visits that failed for none of [Reasons].
const (
	outcomeOK          = "ok"        // the walk completed
	outcomeContinues   = "continues" // other visits of its host come first
	outcomePaused      = "paused"
	outcomeLost        = "lost"              // another process continues the walk
	outcomeStopped     = "stopped"           // with the process
	outcomeTrouble     = "trouble"           // in this process, such as an unreachable event store
	outcomeCredentials = "needs_credentials" //nolint:gosec // it is none
	outcomeJavaScript  = "needs_javascript"
)

// Outcomes returns all outcomes that Monitor.Visited gets, for the labels of a metric.
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

// Kinds of changes that a visit finds of a happening.
const (
	foundNew     = "new"
	foundRevised = "revised"
	foundStale   = "stale"
)

// Kinds returns all kinds that Monitor.Found gets.
func Kinds() []string { return []string{foundNew, foundRevised, foundStale} }

func (v *visit) reportFound(news Tally) {
	if v.Found == nil {
		return
	}
	for kind, n := range map[string]int{foundNew: news.New, foundRevised: news.Revised, foundStale: news.WentStale} {
		for range n {
			v.Found(kind)
		}
	}
}
