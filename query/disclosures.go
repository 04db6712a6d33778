package query

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Disclosures lists the latest disclosures of a destination's secrets, address or headers, newest first.
func (q *Queries) Disclosures(ctx context.Context, destination uuid.UUID, most int) ([]AuditEntry, error) {
	latest, err := q.auditRows(ctx, "disclosures", "destination = $1 ORDER BY commit_position DESC, prepare_position "+
		"DESC LIMIT $2", destination, most)
	if err != nil {
		return nil, fmt.Errorf("disclosures: %w", err)
	}
	return latest, nil
}

// DisclosureEntries calls each for all disclosures of a destination, oldest first, as AuditEntries does for its
// changes.
func (q *Queries) DisclosureEntries(ctx context.Context, destination uuid.UUID, each func(AuditEntry) error) error {
	return q.eachDisclosure(ctx, "destination = $1", destination, each)
}

func (q *Queries) eachDisclosure(ctx context.Context, where string, arg any, each func(AuditEntry) error) error {
	destination, commit, prepare := uuid.Nil, int64(-1), int64(-1)
	for {
		page, err := q.auditRows(ctx, "disclosures", where+` AND (destination, commit_position, prepare_position) > ($2, $3,
			$4)
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
