package console

import (
	"context"
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/query"
)

// operatorsOverview is what operators see first.
type operatorsOverview struct {
	Periods []period
	Failing []query.Failing
	AllFail int // of which Failing are the worst
	States  []stateCount
	Trouble []adminapi.Projection // consumers that are behind, stopped, or run nowhere
	Running int                   // the others
	System  System
	Now     time.Time
	Unknown string // why consumers can't be told
}

const (
	shownFailing = 20
	// late is from when on a consumer counts as behind, in seconds.
	late = 10
)

// overviewOfAll answers GET /console/ on the operators' side.
func (c *Console) overviewOfAll(v *visit) (screen, error) {
	shown := operatorsOverview{Now: c.Now().UTC()}
	outcomes, err := c.Queries.AllOutcomes(v.Context(), beginnings(shown.Now)...)
	if err != nil {
		return screen{}, err
	}
	shown.Periods = periodsOf(outcomes)
	if shown.Failing, shown.AllFail, err = c.Queries.FailingDestinations(v.Context(), shownFailing); err != nil {
		return screen{}, err
	}
	if shown.States, err = c.sourceStates(v.Context(), ""); err != nil {
		return screen{}, err
	}
	if shown.System, err = c.operators.System(v.Context()); err != nil {
		return screen{}, err
	}
	shown.consumers(v.Context(), c.operators.Projections)
	return screen{Title: "Overview", Template: "operators-overview", Data: shown}, nil
}

// consumers sorts out those with trouble. Without the event store that can't be told, and the page is needed all the more.
func (o *operatorsOverview) consumers(ctx context.Context, of adminapi.Projections) {
	list, err := of.Status(ctx)
	if err != nil {
		o.Unknown = "the event store does not answer"
	}
	for _, p := range list {
		if p.Stopped != "" || p.Process == "" || behind(p.Behind) || p.Outdated != "" || p.Building != nil {
			o.Trouble = append(o.Trouble, p)
		} else {
			o.Running++
		}
	}
}
