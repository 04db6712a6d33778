package query

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Disclosures are the latest entries that say to whom something of a destination was shown in full, the newest first.
func (q *Queries) Disclosures(ctx context.Context, destination uuid.UUID, most int) ([]AuditEntry, error) {
	latest, err := q.auditRows(ctx, "disclosures", "destination = $1 ORDER BY commit_position DESC, prepare_position DESC LIMIT $2", destination, most)
	if err != nil {
		return nil, fmt.Errorf("disclosures: %w", err)
	}
	return latest, nil
}

// DisclosureEntries goes through all of a destination, the oldest first, as AuditEntries does through its changes.
func (q *Queries) DisclosureEntries(ctx context.Context, destination uuid.UUID, each func(AuditEntry) error) error {
	return q.eachDisclosure(ctx, "destination = $1", destination, each)
}

func (q *Queries) eachDisclosure(ctx context.Context, where string, arg any, each func(AuditEntry) error) error {
	destination, commit, prepare := uuid.Nil, int64(-1), int64(-1)
	for {
		page, err := q.auditRows(ctx, "disclosures", where+` AND (destination, commit_position, prepare_position) > ($2, $3, $4)
			ORDER BY destination, commit_position, prepare_position LIMIT $5`, arg, destination, commit, prepare, historyPage)
		if err != nil {
			return fmt.Errorf("disclosures: %w", err)
		}
		for _, e := range page {
			if err := each(e); err != nil {
				return err
			}
			destination, commit, prepare = e.Destination, e.Commit, e.Prepare
		}
		if len(page) < historyPage {
			return nil
		}
	}
}
