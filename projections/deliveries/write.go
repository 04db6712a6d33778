package deliveries

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections"
	"carillon/projections/column"
)

// write sends the fold to Postgres in one round trip.
func (f *fold) write(ctx context.Context, tx pgx.Tx) error {
	var batch pgx.Batch
	f.retired.write(&batch)
	f.writeInserts(&batch)
	f.writeAttempts(&batch)
	f.writeUpdates(&batch)
	f.writeDue(tx, &batch)
	f.writeTallies(&batch)
	f.writeDeleted(&batch)
	f.retired.forgetEmpty(&batch)
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("write deliveries: %w", err)
	}
	return nil
}

// writeDeleted takes the rows of deleted destinations away, and keeps what counts need. A waiting delivery is discarded
// with its destination.
func (f *fold) writeDeleted(batch *pgx.Batch) {
	if len(f.deleted) == 0 {
		return
	}
	for _, sql := range []string{
		`WITH over AS (DELETE FROM deliveries WHERE destination = ANY($1) RETURNING id, organization, destination,
				(created_at AT TIME ZONE 'UTC')::date AS day, type, feed_id, status, attempts, attempted_at, failure_reason,
				response_status, duration_micros),
			emptied AS (UPDATE earlier_attempts a SET response_body = NULL, response_headers = NULL, error_message = NULL
				FROM over WHERE over.attempts > 1 AND a.delivery = over.id),
			discarded AS (UPDATE outcomes o SET discarded = o.discarded + w.waiting
				FROM (SELECT organization, day, count(*) AS waiting FROM over WHERE status = 'pending' GROUP BY 1, 2) w
				WHERE o.organization = w.organization AND o.day = w.day)
			INSERT INTO deleted_deliveries SELECT id, organization, destination, day, type,
				coalesce(feed_id, '00000000-0000-0000-0000-000000000000'),
				CASE status WHEN 'pending' THEN 'discarded' ELSE status END,
				attempted_at, failure_reason, response_status, duration_micros FROM over`,
		"DELETE FROM due WHERE destination = ANY($1)",
		"DELETE FROM tallies WHERE destination = ANY($1)",
		"INSERT INTO gone SELECT DISTINCT unnest($1::uuid[]) ON CONFLICT DO NOTHING",
	} {
		batch.Queue(sql, f.deleted)
	}
}

// The columns of the table deliveries, each declared once: constant columns, columns that each event or each attempt
// may change, and the result of the last attempt.
var (
	subscriptions = column.New[[]string]("subscriptions", "text", func(r *row) string {
		return uuidArray(r.subscriptions)
	}).As("subscriptions::uuid[]")
	idColumn  = column.New[column.UUIDs]("id", "uuid", func(r *row) uuid.UUID { return r.id })
	scheduled = []column.Column[*row]{
		column.New[column.UUIDs]("organization", "uuid", func(r *row) uuid.UUID { return r.organization }),
		column.New[column.UUIDs]("destination", "uuid", func(r *row) uuid.UUID { return r.destination }),
		column.New[column.Times]("created_at", "timestamptz", func(r *row) time.Time { return r.createdAt }),
		column.New[column.UUIDs]("event_id", "uuid", func(r *row) uuid.UUID { return r.publication }),
		column.New[column.Times]("event_time", "timestamptz", func(r *row) time.Time { return r.event.Time }),
		column.New[column.NullUUIDs]("feed_id", "uuid", func(r *row) uuid.UUID { return r.event.FeedID }),
		column.New[column.NullTexts]("feed_type", "text", func(r *row) string { return r.event.FeedType }),
		column.New[[]string]("type", "text", func(r *row) string { return r.event.Type }),
		column.New[[]string]("source", "text", func(r *row) string { return r.event.Source }),
		column.New[column.NullTexts]("subject", "text", func(r *row) string { return r.event.Subject }),
		subscriptions,
	}
	current = []column.Column[*row]{
		column.New[column.Times]("completed_at", "timestamptz", func(r *row) time.Time { return r.completedAt }),
		column.New[[]int64]("revision", "bigint", func(r *row) int64 { return r.revision }),
		column.New[[]int64]("changed_sequence", "bigint", func(r *row) int64 { return r.changed }),
		column.New[[]string]("status", "text", func(r *row) string { return string(r.status) }),
		column.New[column.NullUUIDs]("replay", "uuid", func(r *row) uuid.UUID { return r.replay }),
		column.New[column.NullTexts]("unsuccessful", "text", (*row).unsuccessful),
	}
	counted = []column.Column[*row]{
		column.New[[]int]("attempts", "integer", func(r *row) int { return r.attempts }),
		column.New[[]int]("automatic", "integer", func(r *row) int { return r.automatic }),
	}
	attempted = []column.Column[*attempt]{
		column.New[[]int64]("sequence", "bigint", func(a *attempt) int64 { return a.sequence }).
			As("nullif(sequence, 0)"),
		column.New[column.Times]("attempted_at", "timestamptz", func(a *attempt) time.Time { return a.At }),
		column.New[[]int64]("duration_micros", "bigint", func(a *attempt) int64 { return a.DurationMicros }).
			As("CASE WHEN attempted_at IS NOT NULL THEN duration_micros END"),
		column.New[column.NullInts]("renumbered_from", "integer", func(a *attempt) int {
			return a.RenumberedFrom
		}),
		column.New[column.NullInts]("response_status", "integer", func(a *attempt) int {
			return a.ResponseStatus
		}),
		column.New[column.NullTexts]("trigger", "text", func(a *attempt) string { return string(a.Trigger) }),
		column.New[column.NullTexts]("failure_reason", "text",
			func(a *attempt) string { return string(a.FailureReason) }),
		column.New[column.NullTexts]("error_message", "text", func(a *attempt) string { return a.ErrorMessage }),
		column.New[[][]byte]("response_body", "bytea", func(a *attempt) []byte { return a.ResponseBody }),
		column.New[[][]byte]("response_headers", "bytea", func(a *attempt) []byte { return a.ResponseHeaders }),
	}
	last = column.Of((*row).lastAttempt, attempted...)
)

// A delivery that is attempted is changed in more columns than a waiting one.
var (
	insertDeliveries = column.Insert("deliveries", slices.Concat([]column.Column[*row]{idColumn}, scheduled, current,
		counted, last)...)
	updateAttempted = column.Update("deliveries", slices.Concat([]column.Column[*row]{idColumn}, current,
		counted, last)...)
	updateOthers     = column.Update("deliveries", slices.Concat([]column.Column[*row]{idColumn}, current)...)
	updateReinstated = column.SQL("UPDATE deliveries AS t SET subscriptions = u.subscriptions::uuid[], automatic = "+
		"u.automatic FROM %s WHERE t.id = u.id",
		append([]column.Column[*row]{idColumn, subscriptions}, counted...)...)
)

// noAttempt is the last attempt of a delivery that has had none.
var noAttempt attempt

func (r *row) lastAttempt() *attempt {
	if r.last == nil {
		return &noAttempt
	}
	return r.last
}

func (f *fold) writeInserts(batch *pgx.Batch) {
	fresh := make([]*row, 0, len(f.rows))
	for _, r := range f.rows {
		if r.before == "" {
			fresh = append(fresh, r)
		}
	}
	insertDeliveries.Queue(batch, fresh)
}

func (f *fold) writeUpdates(batch *pgx.Batch) {
	var attempted, others, reinstated []*row
	for _, r := range f.rows {
		if r.reinstated && r.before != "" {
			reinstated = append(reinstated, r)
		}
		switch {
		case r.before == "" || !r.touched:
		case r.last != nil:
			attempted = append(attempted, r)
		default:
			others = append(others, r)
		}
	}
	updateAttempted.Queue(batch, attempted)
	updateOthers.Queue(batch, others)
	updateReinstated.Queue(batch, reinstated)
}

// uuidArray is the text form: unnest can't take arrays of arrays.
func uuidArray(ids []uuid.UUID) string {
	text := make([]byte, 0, 2+37*len(ids))
	text = append(text, '{')
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, id.String()...)
	}
	return string(append(text, '}'))
}

// earlierAttempt is one that another attempt of the same batch follows.
type earlierAttempt struct {
	delivery uuid.UUID
	attempt  *attempt
}

var insertEarlier = column.Insert("earlier_attempts", slices.Concat([]column.Column[earlierAttempt]{
	column.New[column.UUIDs]("delivery", "uuid", func(e earlierAttempt) uuid.UUID { return e.delivery }),
	column.New[[]int]("number", "integer", func(e earlierAttempt) int { return e.attempt.Number }),
}, column.Of(func(e earlierAttempt) *attempt { return e.attempt }, attempted...))...)

// keepFollowed copies the last attempts of deliveries that get another one.
var keepFollowed = "INSERT INTO earlier_attempts (delivery, number, " + column.Names(attempted...) +
	") SELECT id, attempts, " +
	column.Names(attempted...) + " FROM deliveries WHERE id = ANY($1)"

// writeAttempts stores those that are not the last any more.
func (f *fold) writeAttempts(batch *pgx.Batch) {
	var (
		followed column.UUIDs
		earlier  []earlierAttempt
	)
	for _, r := range f.rows {
		if r.last != nil && r.attemptsBefore > 0 {
			followed = append(followed, r.id)
		}
		for i := range r.earlier {
			earlier = append(earlier, earlierAttempt{r.id, &r.earlier[i]})
		}
	}
	if len(followed) > 0 {
		batch.Queue(keepFollowed, followed)
	}
	insertEarlier.Queue(batch, earlier)
}

var (
	dueColumns = []column.Column[*row]{
		idColumn,
		column.New[column.UUIDs]("destination", "uuid", func(r *row) uuid.UUID { return r.destination }),
		column.New[column.Times]("due_at", "timestamptz", func(r *row) time.Time { return r.dueAt }),
		column.New[column.Times]("available_at", "timestamptz", func(r *row) time.Time { return r.availableAt }),
		column.New[column.NullInts]("worker", "integer", func(r *row) int { return int(r.worker) }),
		column.New[column.NullUUIDs]("replay", "uuid", func(r *row) uuid.UUID { return r.replay }),
		column.New[column.Times]("decided_at", "timestamptz", func(r *row) time.Time { return r.decidedAt }),
	}
	dueAt, decidedAt = dueColumns[2], dueColumns[6]

	insertDue = column.Insert("due", dueColumns...)
	upsertDue = column.Upsert("due", []string{"id"}, []string{"destination"}, dueColumns...)
	retryDue  = column.SQL("UPDATE due AS t SET due_at = u.due_at, decided_at = u.decided_at, available_at = "+
		"CASE WHEN t.worker IS NULL THEN u.due_at ELSE t.available_at END FROM %s WHERE t.id = u.id",
		idColumn, dueAt, decidedAt)
)

func (f *fold) writeDue(tx pgx.Tx, batch *pgx.Batch) {
	var (
		over                column.UUIDs
		first, set, retried []*row
	)
	for _, r := range f.rows {
		switch {
		case r.retried:
			retried = append(retried, r)
		case !r.dueTouched:
		case r.dueAt.IsZero() && r.wasDue():
			over = append(over, r.id)
		case r.dueAt.IsZero():
		case r.wasDue():
			set = append(set, r)
		default:
			first = append(first, r)
		}
		if (r.dueTouched || r.retried) && !r.dueAt.IsZero() && r.worker == 0 {
			projections.Due(tx, r.availableAt)
		}
	}
	if len(over) > 0 {
		batch.Queue("DELETE FROM due WHERE id = ANY($1)", over)
	}
	insertDue.Queue(batch, first)
	upsertDue.Queue(batch, set)
	retryDue.Queue(batch, retried)
}
