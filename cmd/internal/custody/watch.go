package custody

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	watchPause   = 10 * time.Second // between two looks at whether something is missing
	compareAfter = 10 * time.Minute // between two comparisons although nothing seems to be
	mostMissing  = 10_000           // that a look lists
)

// Watch looks now and then whether a key is missing, compares where one is, and renews the epoch key when it is time.
// It goes on until the context ends.
func (c *Custody) Watch(ctx context.Context) {
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	compared := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		differ, err := c.differ(ctx)
		if err == nil && (differ || time.Since(compared) >= compareAfter) {
			compared = time.Now()
			err = c.Compare(ctx)
		}
		if err == nil {
			err = c.renewIfDue(ctx)
		}
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("data keys could not be compared, trying again", "error", err)
		}
	}
}

func (c *Custody) renewIfDue(ctx context.Context) error {
	due, err := c.due(ctx)
	if err != nil || !due {
		return err
	}
	return c.Renew(ctx)
}

// differ says whether the places, or who lives, differ from what the last comparison left.
func (c *Custody) differ(ctx context.Context) (bool, error) {
	missing, err := c.missing(ctx)
	if err != nil {
		return false, err
	}
	gap, trouble := c.gap(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partial || !slices.Equal(missing, c.lost) || (trouble == nil) != (c.trouble == nil) || trouble == nil && gap != c.left, nil
}

// gap is how many keys the second place has more than Postgres. A comparison leaves those of owners that are not made yet.
func (c *Custody) gap(ctx context.Context) (more int, err error) {
	if c.second == nil {
		return 0, nil
	}
	var rows int
	if err := c.Pool.QueryRow(ctx, "SELECT count(*) FROM carillon.data_keys").Scan(&rows); err != nil {
		return 0, fmt.Errorf("data keys: %w", err)
	}
	kept, err := c.second.Count(ctx)
	return kept - rows, err
}

// missing lists who lives and has no key in Postgres, as far as the read models know.
func (c *Custody) missing(ctx context.Context) ([]uuid.UUID, error) {
	rows, err := c.Pool.Query(ctx, `SELECT o.id FROM (SELECT id FROM destinations.destinations
			UNION ALL SELECT id FROM client_certificates.certificates WHERE ended_at IS NULL) o
		WHERE NOT EXISTS (SELECT FROM carillon.data_keys k WHERE k.id = o.id) LIMIT $1`, mostMissing)
	if err != nil {
		return nil, fmt.Errorf("data keys: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("data keys: %w", err)
	}
	return sorted(missing), nil
}
