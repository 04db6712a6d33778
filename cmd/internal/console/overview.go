package console

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/query"
)

// overviewPage is an organization's start page.
type overviewPage struct {
	Answering answering
	Waiting   query.Backlog
	Periods   []period
	Failing   []query.Destination // the worst ones
	AllFail   int
	Sparks    map[uuid.UUID]spark
	Total     int // of destinations
	Now       time.Time
}

// period is the sum of deliveries since a day.
type period struct {
	Name string
	query.Outcomes
}

// Rate returns the success rate of completed deliveries, in percent.
func (p period) Rate() string { return percent(p.Succeeded, p.Succeeded+p.Failed) }

// periods lists the periods to sum up, with the number of days before today on which they begin.
var periods = []struct {
	name string
	days int
}{{"today", 0}, {"7 days", 6}, {"30 days", 29}}

// beginnings returns the first days of the periods.
func beginnings(now time.Time) []time.Time {
	days := make([]time.Time, len(periods))
	for i, p := range periods {
		days[i] = now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -p.days)
	}
	return days
}

func periodsOf(outcomes []query.Outcomes) []period {
	all := make([]period, len(periods))
	for i, p := range periods {
		all[i] = period{p.name, outcomes[i]}
	}
	return all
}

// maxFailing bounds the failing destinations on the page.
const maxFailing = 10

// overview answers GET /console/.
func (c *Console) overview(v *visit) (screen, error) {
	shown := overviewPage{Now: c.Now().UTC()}
	outcomes, err := c.Queries.Outcomes(v.Context(), v.organization(), beginnings(shown.Now)...)
	if err != nil {
		return screen{}, err
	}
	shown.Periods = periodsOf(outcomes)
	if shown.Failing, shown.AllFail, err = c.Queries.FindDestinations(v.Context(), v.organization(),
		query.DestinationFilter{
			Status: failing,
			Limit:  maxFailing,
		}); err != nil {
		return screen{}, err
	}
	if shown.Total, err = c.Queries.CountDestinations(v.Context(), v.organization()); err != nil {
		return screen{}, err
	}
	if shown.Sparks, err = c.sparks(v, shown.Failing, shown.Now); err != nil {
		return screen{}, err
	}
	if shown.Waiting, err = c.Queries.Backlog(v.Context(), v.organization(), shown.Now); err != nil {
		return screen{}, err
	}
	shown.Answering, err = c.answering(v, uuid.Nil, shown.Now)
	return screen{Title: "Overview", Template: "overview", Data: shown}, err
}

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
