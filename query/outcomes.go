package query

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Outcomes counts deliveries by their outcome.
type Outcomes struct {
	Total, Succeeded, Failed, Superseded, Discarded int
}

// Pending returns the number of deliveries without an outcome.
func (o Outcomes) Pending() int { return o.Total - o.Succeeded - o.Failed - o.Superseded - o.Discarded }

const sumOfOutcomes = `coalesce(sum(total), 0)::bigint total, coalesce(sum(succeeded), 0)::bigint succeeded,
	coalesce(sum(failed), 0)::bigint failed, coalesce(sum(superseded), 0)::bigint superseded,
	coalesce(sum(discarded), 0)::bigint discarded`

// Outcomes counts an organization's deliveries that were created since each of some days.
func (q *Queries) Outcomes(ctx context.Context, organization uuid.UUID, since ...time.Time) ([]Outcomes, error) {
	return q.outcomes(ctx, `SELECT day, total, succeeded, failed, superseded, discarded FROM deliveries.outcomes
		WHERE day >= $1 AND organization = $2`, since, organization)
}

// AllOutcomes counts the deliveries of all organizations, as Outcomes does.
func (q *Queries) AllOutcomes(ctx context.Context, since ...time.Time) ([]Outcomes, error) {
	return q.outcomes(ctx, `SELECT day, `+sumOfOutcomes+` FROM deliveries.outcomes WHERE day >= $1 GROUP BY day`, since)
}

// outcomes sums up the days that a statement selects, starting at each of some days; its first parameter is the first
// of them.
func (q *Queries) outcomes(ctx context.Context, sql string, since []time.Time, more ...any) ([]Outcomes, error) {
	sums := make([]Outcomes, len(since))
	if len(since) == 0 {
		return sums, nil
	}
	for i := range since {
		since[i] = since[i].UTC().Truncate(24 * time.Hour)
	}
	type ofDay struct {
		Day time.Time
		Outcomes
	}
	days, err := many(ctx, q.Pool, "outcomes", pgx.RowToStructByPos[ofDay], sql,
		append([]any{slices.MinFunc(since, time.Time.Compare)}, more...)...)
	for _, d := range days {
		for i := range since {
			if !d.Day.Before(since[i]) {
				sums[i].add(d.Outcomes)
			}
		}
	}
	return sums, err
}

func (o *Outcomes) add(more Outcomes) {
	o.Total += more.Total
	o.Succeeded += more.Succeeded
	o.Failed += more.Failed
	o.Superseded += more.Superseded
	o.Discarded += more.Discarded
}
