package projections

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
	"carillon/projections/sessionlock"
)

// Status is how far a projection or a process manager has come.
type Status struct {
	Name      string
	Position  eventstore.Position
	Events    int64 // applied since it was built
	UpdatedAt time.Time
	Stopped   string // why it stopped permanently; empty while it does not
	Process   string // which runs it, as sessionlock.Process calls it; empty: none does
	Stranger  string // the session that holds its lock and is not of the product; empty: none does

	tables     string // the fingerprint of a read model's
	Outdated   string // why its rows, which serve, are not made of the present event store; empty if they are
	Incomplete bool   // there was nothing to serve when it began, and it is not at the head of that time yet
	Built      int64  // how far it is rebuilt, as a commit position
	BuildTo    int64  // the head when that began; 0 while it is not rebuilt

	Verified *Verification // the last one since it was built. Optional.
}

// Has reports whether the tables are those of a read model as this program has it, and not of another version.
func (s Status) Has(m ReadModel) bool { return m.made(s.tables) }

// unnamed is a process of a version that gave its sessions no name.
const unnamed = "a process of an older version"

// Statuses lists every projection and process manager that has a checkpoint, by name.
func Statuses(ctx context.Context, pool *pgxpool.Pool) ([]Status, error) {
	holders, err := sessionlock.Holders(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("projection status: %w", err)
	}
	rows, err := pool.Query(ctx, `SELECT name, fingerprint, commit, prepare, events, updated_at, coalesce(stopped, ''),
		coalesce(outdated, ''), incomplete,
		coalesce(built, 0), coalesce(build_to, 0),
		at, coalesce(sample, 0), coalesce(rows, 0), coalesce(differing, 0), differences
		FROM carillon.checkpoints LEFT JOIN carillon.verifications USING (name) ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("projection status: %w", err)
	}
	statuses, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Status, err error) {
		var (
			commit, prepare int64
			v               Verification
			at              *time.Time
		)
		err = row.Scan(&s.Name, &s.tables, &commit, &prepare, &s.Events, &s.UpdatedAt, &s.Stopped, &s.Outdated,
			&s.Incomplete, &s.Built, &s.BuildTo, &at, &v.Sample, &v.Rows, &v.Differing, &v.Differences)
		if at != nil {
			v.At, s.Verified = *at, &v
		}
		s.Position = position(commit, prepare)
		holder, held := holders[consumerLock(s.Name)]
		s.Stranger = holder.Stranger
		if held && holder.Stranger == "" {
			s.Process = cmp.Or(holder.Process, unnamed)
		}
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("projection status: %w", err)
	}
	return statuses, nil
}

// consumerLock is the lock that the runner of a consumer holds.
func consumerLock(name string) sessionlock.Key { return sessionlock.Key(lockKey(name)) }
