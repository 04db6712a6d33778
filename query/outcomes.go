package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Outcomes counts deliveries by what came of them.
type Outcomes struct {
	Total, Succeeded, Failed, Superseded, Discarded int
}

// Pending are those that are still to come to an end.
func (o Outcomes) Pending() int { return o.Total - o.Succeeded - o.Failed - o.Superseded - o.Discarded }

const sumOfTallies = `coalesce(sum(total), 0)::bigint total, coalesce(sum(succeeded), 0)::bigint succeeded,
	coalesce(sum(failed), 0)::bigint failed, coalesce(sum(superseded), 0)::bigint superseded, coalesce(sum(discarded), 0)::bigint discarded`

// Outcomes counts an organization's deliveries that were made since a day, by way of the tallies.
func (q *Queries) Outcomes(ctx context.Context, organization uuid.UUID, since time.Time) (o Outcomes, err error) {
	err = q.Pool.QueryRow(ctx, `SELECT `+sumOfTallies+`
		FROM deliveries.tallies t JOIN destinations.destinations d ON d.id = t.destination
		WHERE d.organization = $1 AND t.day >= $2`, organization, since.UTC().Truncate(24*time.Hour)).
		Scan(&o.Total, &o.Succeeded, &o.Failed, &o.Superseded, &o.Discarded)
	if err != nil {
		return o, fmt.Errorf("outcomes: %w", err)
	}
	return o, nil
}
