// Package deliveries is the read model of deliveries, and the queue that deliverers claim their work from.
//
//	batch ─▶ decode ─▶ read the rows it continues ─▶ fold in memory ─▶ one pipeline of few statements
//
// The fold ends with each row's final state, so that a delivery that is scheduled and attempted within one batch is one
// insert. Waiting deliveries are in a small separate table ("due"), so that the history costs nothing.
//
// Everything here comes from events, except the leases that deliverers take by Claim: a rebuild takes them over.
package deliveries

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

// maxRows bounds what is written at one time: a dispatch event alone may hold 2,000 deliveries.
const maxRows = 4000

//go:embed schema.sql
var schema string

// ReadModel is the read model of deliveries, and the queue of due ones.
var ReadModel = projections.ReadModel{
	Name: "deliveries",
	// 2: an attempt that lost its race is no step of the retry schedule; 3: outcomes; 4: retirement; 5: retried ones are
	// in the index of unsuccessful ones; 6: places in the log; 7: counts of deleted destinations; 8: days of attempts
	Version: 8,
	Schema:  schema,
	Filter: eventstore.Categories(dispatch.Aggregate.Category, delivery.Aggregate.Category,
		destination.Aggregate.Category, retirement.Aggregate.Category),
	Project:   project,
	CarryOver: carryLeases,
	Unverified: map[string][]string{
		"due": {"due_at", "available_at", "worker", "decided_at"}, // leases, and times that BringBack moves
	},
}

// carryLeases keeps deliveries that are in progress from being claimed a second time. The old rows go, so that a claim
// that waits for this transaction finds none there.
func carryLeases(ctx context.Context, tx pgx.Tx, from string) error {
	old := from + ".due"
	_, err := tx.Exec(ctx, "LOCK TABLE "+old+" IN SHARE ROW EXCLUSIVE MODE; "+
		"UPDATE due SET worker = o.worker, available_at = o.available_at FROM "+old+" o "+
		"WHERE o.id = due.id AND o.due_at = due.due_at AND o.replay IS NOT DISTINCT FROM due.replay; "+
		"DELETE FROM "+old)
	return err
}

// project applies a batch.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	for len(batch) > 0 {
		steps, used, err := decode(batch)
		if err != nil {
			return err
		}
		f, err := read(ctx, tx, steps)
		if err != nil {
			return err
		}
		for _, s := range steps {
			f.apply(s)
		}
		if err := f.write(ctx, tx); err != nil {
			return err
		}
		batch = batch[used:]
	}
	return nil
}

// step is one decoded event.
type step struct {
	id       uuid.UUID // of the stream
	revision eventstore.Revision
	sequence int64 // its place in the log
	event    any
}

// decode takes events until they concern maxRows rows.
func decode(batch []eventstore.Recorded) (steps []step, used int, err error) {
	steps = make([]step, 0, len(batch))
	for rows := 0; used < len(batch) && rows < maxRows; used++ {
		recorded := &batch[used]
		s := step{id: recorded.StreamID(), revision: recorded.Revision}
		s.sequence = int64(recorded.Position.Commit) //nolint:gosec // positions fit an int64
		switch recorded.Category() {
		case delivery.Aggregate.Category:
			s.event, err = delivery.Events.Decode(recorded)
			rows++
		case dispatch.Aggregate.Category:
			var event dispatch.Event
			event, err = dispatch.Events.Decode(recorded)
			rows += len(scheduledBy(event).Deliveries)
			s.event = event
		case retirement.Aggregate.Category:
			var event retirement.Event
			event, err = retirement.Events.Decode(recorded)
			rows += len(deliveriesOf(retiredBy(event)))
			s.event = event
		default:
			s.event, err = destination.Events.Decode(recorded)
		}
		if err != nil {
			return nil, 0, err
		}
		steps = append(steps, s)
	}
	return steps, used, nil
}

// read begins a fold with the stored rows that the steps continue, and the deleted destinations that they name.
func read(ctx context.Context, tx pgx.Tx, steps []step) (*fold, error) {
	f := newFold(len(steps))
	destinations := map[uuid.UUID]struct{}{}
	made, wanted := map[uuid.UUID]struct{}{}, make(column.UUIDs, 0, len(steps))
	for _, s := range steps {
		switch event := s.event.(type) {
		case dispatch.Event:
			scheduled := scheduledBy(event)
			for _, d := range scheduled.Deliveries {
				destinations[d.Destination] = struct{}{}
				made[dispatch.DeliveryID(scheduled.Publication, d.Destination)] = struct{}{}
			}
		case delivery.Event:
			if _, here := made[s.id]; !here {
				wanted = append(wanted, s.id)
			}
		case retirement.Event:
			retired := retiredBy(event)
			for _, id := range deliveriesOf(retired) {
				if _, here := made[id]; !here {
					wanted = append(wanted, id)
				}
			}
			for _, d := range retired.Destinations {
				destinations[d.ID] = struct{}{}
			}
		}
	}
	var batch pgx.Batch
	batch.Queue(planByIndex)
	if len(wanted) > 0 {
		batch.Queue(readRows, wanted).Query(f.scanRows)
	}
	if len(destinations) > 0 {
		batch.Queue("SELECT destination FROM gone WHERE destination = ANY($1)", keys(destinations)).Query(f.scanGone)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return f, nil
}

// planByIndex keeps the planner from plans for the current sizes of tables: a plan is kept while the tables grow from
// empty to millions of rows. Plans by indexes alone are the same for all values, so each statement is planned once.
// With a plan from five rows and a million due, a claim took over 15 s by sequential scans (8 ms without), and an
// update of 200 deliveries took over 15 s by a hash join (1 ms without).
const planByIndex = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)`

const readRows = `
	SELECT id, organization, destination, created_at, completed_at, attempts, automatic, revision, status, type, feed_id,
	replay
	FROM deliveries WHERE id = ANY($1)`

func (f *fold) scanRows(rows pgx.Rows) error {
	var (
		r      row
		status string
	)
	into := []any{
		column.UUID(&r.id), column.UUID(&r.organization), column.UUID(&r.destination), &r.createdAt,
		column.Time(&r.completedAt), &r.attempts, &r.automatic, &r.revision,
		&status, &r.event.Type, column.UUID(&r.event.FeedID), column.UUID(&r.replay),
	}
	_, err := pgx.ForEachRow(rows, into, func() error {
		stored := r
		stored.status, stored.before = delivery.Status(status), delivery.Status(status)
		stored.replayBefore, stored.attemptsBefore = stored.replay, stored.attempts
		f.add(&stored)
		return nil
	})
	return err
}

func (f *fold) scanGone(rows pgx.Rows) error {
	var id uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{column.UUID(&id)}, func() error {
		f.gone[id] = struct{}{}
		return nil
	})
	return err
}
