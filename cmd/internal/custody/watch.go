package custody

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/irreversible"
)

const (
	watchPause   = 10 * time.Second // between two looks at whether something is missing
	compareAfter = 10 * time.Minute // between two comparisons although nothing seems to be missing
)

// Watch checks from time to time whether a key is missing, compares if one is, and renews the epoch key when it is
// time. It goes on until the context ends.
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
			c.Log.Warn("data keys not compared, trying again", "error", err)
		}
	}
}

func (c *Custody) renewIfDue(ctx context.Context) error {
	due, err := c.due(ctx)
	if err == nil && due {
		if _, err = c.Pass(ctx, irreversible.RenewKeys, nil); err == nil {
			err = c.Renew(ctx)
		}
	}
	return err
}

// differ reports whether places, or the owners that live, differ from the result of the last comparison.
func (c *Custody) differ(ctx context.Context) (bool, error) {
	home, err := c.home.Owners(ctx)
	if err != nil {
		return false, c.troubled(c.home, err)
	}
	missing, err := c.missing(ctx, home)
	if err != nil {
		return false, err
	}
	gap, trouble := c.gap(ctx, home)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partial || !slices.Equal(missing, c.lost) || (trouble == nil) != (c.trouble == nil) {
		return true, nil
	}
	return trouble == nil && gap != c.left, nil
}

// gap returns how many keys the copy has more than the home. A comparison leaves those that are not of this history.
func (c *Custody) gap(ctx context.Context, home []uuid.UUID) (more int, err error) {
	if c.copied == nil {
		return 0, nil
	}
	copied, err := c.copied.Owners(ctx)
	return len(copied) - len(home), err
}

// missing lists the owners that live and have no key in the home, as far as the read models know.
func (c *Custody) missing(ctx context.Context, home []uuid.UUID) (missing []uuid.UUID, err error) {
	rows, err := c.Pool.Query(ctx, `SELECT o.id FROM (SELECT id FROM destinations.destinations
		UNION ALL SELECT id FROM client_certificates.certificates WHERE ended_at IS NULL) o
		WHERE o.id <> ALL(coalesce($1, '{}'::uuid[]))`, home)
	if err == nil {
		missing, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	}
	if err != nil {
		return nil, fmt.Errorf("data keys: %w", err)
	}
	return sorted(missing), nil
}
