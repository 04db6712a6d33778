package query

import (
	"context"
	"fmt"
	"time"
)

// InstallationTotals are counts over all organizations, for metrics.
type InstallationTotals struct {
	Pending      int           // deliveries that have no final status
	Failed       int           // deliveries whose retries are used up
	Overdue      time.Duration // of the delivery that has been due for longest; 0 if none is due
	AutoDisabled int           // destinations
}

// InstallationTotals returns the counts over all organizations. Deliveries of disabled destinations and suspended
// organizations are pending, but not overdue.
func (q *Queries) InstallationTotals(ctx context.Context) (InstallationTotals, error) {
	var t InstallationTotals
	err := q.Pool.QueryRow(ctx, `SELECT coalesce(sum(`+tally["pending"]+`), 0)::bigint, coalesce(sum(failed), 0)::bigint,
		(SELECT coalesce(greatest(clock_timestamp() - min(due.at), interval '0'), interval '0')
			FROM destinations.destinations d
			LEFT JOIN organizations.organizations o ON o.id = d.organization
			CROSS JOIN LATERAL (SELECT u.available_at AS at FROM deliveries.due u
				WHERE u.destination = d.id AND u.worker IS NULL AND u.replay IS NULL ORDER BY u.available_at LIMIT 1) due
			WHERE d.status = 'enabled' AND o.status IS DISTINCT FROM 'suspended'),
		(SELECT count(*) FROM destinations.destinations WHERE status = 'auto_disabled')
		FROM deliveries.outcomes`).
		Scan(&t.Pending, &t.Failed, &t.Overdue, &t.AutoDisabled)
	if err != nil {
		return t, fmt.Errorf("totals: %w", err)
	}
	return t, nil
}
