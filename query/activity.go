package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Activity lists the latest changes of an organization's destinations since a time, newest first.
func (q *Queries) Activity(ctx context.Context, organization uuid.UUID, since time.Time,
	limit int) ([]AuditEntry, error) {
	list, err := q.auditRows(ctx, "entries", "organization = $1 AND at >= $2 "+
		"ORDER BY at DESC, commit_position DESC, prepare_position DESC, revision DESC LIMIT $3",
		organization, since, limit)
	if err != nil {
		return nil, fmt.Errorf("activity: %w", err)
	}
	return list, nil
}
