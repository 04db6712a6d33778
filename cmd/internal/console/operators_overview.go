package console

import (
	"context"
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/query"
)

// operatorsOverview is the operators' start page.
type operatorsOverview struct {
	Periods []period
	Failing []query.Failing
	AllFail int // total, of which Failing are the worst
	States  []stateCount
	Trouble []adminapi.Projection // consumers that are behind, stopped or not running
	Running int                   // number of the others
	System  System
	Now     time.Time
	Unknown string // why the state of consumers is unknown
}

const (
	maxOperatorFailing = 20
	// late is the delay from which a consumer counts as behind, in seconds.
	late = 10
)

// overviewOfAll answers GET /console/ on the operators' console.
func (c *Console) overviewOfAll(v *visit) (screen, error) {
	shown := operatorsOverview{Now: c.Now().UTC()}
	outcomes, err := c.Queries.AllOutcomes(v.Context(), beginnings(shown.Now)...)
	if err != nil {
		return screen{}, err
	}
	shown.Periods = periodsOf(outcomes)
	if shown.Failing, shown.AllFail, err = c.Queries.FailingDestinations(v.Context(), maxOperatorFailing); err != nil {
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

// consumers separates the consumers with trouble. Without the event store their state is unknown, but the page is
// needed even more.
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
