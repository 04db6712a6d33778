package deliveries

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/projections/column"
)

// write sends the fold to Postgres in one round trip.
func (f *fold) write(ctx context.Context, tx pgx.Tx) error {
	var batch pgx.Batch
	f.writeDeleted(&batch)
	f.writeInserts(&batch)
	f.writeAttempts(&batch)
	f.writeUpdates(&batch)
	f.writeDue(&batch)
	f.writeTallies(&batch)
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("write deliveries: %w", err)
	}
	return nil
}

func (f *fold) writeDeleted(batch *pgx.Batch) {
	if len(f.deleted) == 0 {
		return
	}
	batch.Queue(`DELETE FROM earlier_attempts a USING deliveries d
		WHERE d.destination = ANY($1) AND d.attempts > 1 AND a.delivery = d.id`, f.deleted)
	batch.Queue("DELETE FROM due WHERE destination = ANY($1)", f.deleted)
	batch.Queue("DELETE FROM deliveries WHERE destination = ANY($1)", f.deleted)
	batch.Queue("DELETE FROM tallies WHERE destination = ANY($1)", f.deleted)
	batch.Queue("INSERT INTO gone SELECT unnest($1::uuid[]) ON CONFLICT DO NOTHING", f.deleted)
}

// lastAttempt are the columns of the last attempt in the order of deliveries.
type lastAttempt struct {
	attemptedAt    column.Times // null: there was none
	durationMicros []int64
	renumberedFrom column.NullInts
	responseStatus column.NullInts
	trigger        column.NullTexts
	failureReason  column.NullTexts
	errorMessage   column.NullTexts
	responseBody   [][]byte
}

func (l *lastAttempt) add(a *delivery.Attempted) {
	if a == nil {
		a = new(delivery.Attempted)
	}
	l.attemptedAt = append(l.attemptedAt, a.At)
	l.durationMicros = append(l.durationMicros, a.DurationMicros)
	l.renumberedFrom = append(l.renumberedFrom, a.RenumberedFrom)
	l.responseStatus = append(l.responseStatus, a.ResponseStatus)
	l.trigger = append(l.trigger, string(a.Trigger))
	l.failureReason = append(l.failureReason, a.FailureReason)
	l.errorMessage = append(l.errorMessage, a.ErrorMessage)
	l.responseBody = append(l.responseBody, a.ResponseBody)
}

func (f *fold) writeInserts(batch *pgx.Batch) {
	var (
		id, organization, destination, event  column.UUIDs
		createdAt, eventTime, completedAt     column.Times
		revision                              []int64
		attempts, automatic                   []int
		feedID, replay                        column.NullUUIDs
		feedType, subject, unsuccessful       column.NullTexts
		status, eventType, source, subscribed []string
		last                                  lastAttempt
	)
	for _, r := range f.rows {
		if r.before != "" {
			continue
		}
		id, organization, destination = append(id, r.id), append(organization, r.organization), append(destination, r.destination)
		event, eventTime, createdAt = append(event, r.publication), append(eventTime, r.event.Time), append(createdAt, r.createdAt)
		completedAt, revision = append(completedAt, r.completedAt), append(revision, r.revision)
		attempts, automatic = append(attempts, r.attempts), append(automatic, r.automatic)
		feedID, feedType = append(feedID, r.event.FeedID), append(feedType, r.event.FeedType)
		status, eventType = append(status, string(r.status)), append(eventType, r.event.Type)
		unsuccessful = append(unsuccessful, r.unsuccessful())
		source, subject = append(source, r.event.Source), append(subject, r.event.Subject)
		subscribed, replay = append(subscribed, uuidArray(r.subscriptions)), append(replay, r.replay)
		last.add(r.last)
	}
	if len(id) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO deliveries (id, organization, destination, created_at, completed_at, revision, attempts, automatic, event_id, event_time,
			feed_id, feed_type, status, type, source, subject, subscriptions, attempted_at, duration_micros, renumbered_from,
			response_status, trigger, failure_reason, error_message, response_body, replay, unsuccessful)
		SELECT id, organization, destination, created_at, completed_at, revision, attempts, automatic, event_id, event_time,
			feed_id, feed_type, status, type, source, subject, subscriptions::uuid[], attempted_at,
			CASE WHEN attempted_at IS NOT NULL THEN duration_micros END, renumbered_from,
			response_status, trigger, failure_reason, error_message, response_body, replay, unsuccessful
		FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::integer[], $8::integer[],
			$9::uuid[], $10::timestamptz[], $11::uuid[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[],
			$18::timestamptz[], $19::bigint[], $20::integer[], $21::integer[], $22::text[], $23::text[], $24::text[], $25::bytea[], $26::uuid[], $27::text[])
		AS u (id, organization, destination, created_at, completed_at, revision, attempts, automatic, event_id, event_time,
			feed_id, feed_type, status, type, source, subject, subscriptions, attempted_at, duration_micros, renumbered_from,
			response_status, trigger, failure_reason, error_message, response_body, replay, unsuccessful)`,
		id, organization, destination, createdAt, completedAt, revision, attempts, automatic, event, eventTime,
		feedID, feedType, status, eventType, source, subject, subscribed, last.attemptedAt, last.durationMicros, last.renumberedFrom,
		last.responseStatus, last.trigger, last.failureReason, last.errorMessage, last.responseBody, replay, unsuccessful)
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

// writeAttempts stores those that are not the last any more.
func (f *fold) writeAttempts(batch *pgx.Batch) {
	var (
		followed, id column.UUIDs
		number       []int
		attempts     lastAttempt
	)
	for _, r := range f.rows {
		if r.last != nil && r.attemptsBefore > 0 {
			followed = append(followed, r.id)
		}
		for i := range r.earlier {
			id, number = append(id, r.id), append(number, r.earlier[i].Number)
			attempts.add(&r.earlier[i])
		}
	}
	if len(followed) > 0 {
		batch.Queue(`
			INSERT INTO earlier_attempts (delivery, number, renumbered_from, trigger, response_status, response_body, error_message,
				failure_reason, attempted_at, duration_micros)
			SELECT id, attempts, renumbered_from, trigger, response_status, response_body, error_message,
				failure_reason, attempted_at, duration_micros
			FROM deliveries WHERE id = ANY($1)`, followed)
	}
	if len(id) > 0 {
		batch.Queue(`
			INSERT INTO earlier_attempts (delivery, number, attempted_at, duration_micros, renumbered_from, response_status, trigger,
				failure_reason, error_message, response_body)
			SELECT * FROM unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::bigint[], $5::integer[], $6::integer[], $7::text[],
				$8::text[], $9::text[], $10::bytea[])`,
			id, number, attempts.attemptedAt, attempts.durationMicros, attempts.renumberedFrom, attempts.responseStatus, attempts.trigger,
			attempts.failureReason, attempts.errorMessage, attempts.responseBody)
	}
}

func (f *fold) writeUpdates(batch *pgx.Batch) {
	var attempted, other struct {
		id                  column.UUIDs
		completedAt         column.Times
		revision            []int64
		status              []string
		attempts, automatic []int
		replay              column.NullUUIDs
		unsuccessful        column.NullTexts
	}
	var last lastAttempt
	for _, r := range f.rows {
		if r.before == "" || !r.touched {
			continue
		}
		to := &other
		if r.last != nil {
			to = &attempted
			last.add(r.last)
		}
		to.id, to.completedAt = append(to.id, r.id), append(to.completedAt, r.completedAt)
		to.revision, to.status = append(to.revision, r.revision), append(to.status, string(r.status))
		to.attempts, to.automatic = append(to.attempts, r.attempts), append(to.automatic, r.automatic)
		to.replay, to.unsuccessful = append(to.replay, r.replay), append(to.unsuccessful, r.unsuccessful())
	}
	if len(attempted.id) > 0 {
		batch.Queue(`
			UPDATE deliveries d SET completed_at = u.completed_at, revision = u.revision, status = u.status, attempts = u.attempts,
				automatic = u.automatic, attempted_at = u.attempted_at, duration_micros = u.duration_micros,
				renumbered_from = u.renumbered_from, response_status = u.response_status, trigger = u.trigger,
				failure_reason = u.failure_reason, error_message = u.error_message, response_body = u.response_body, replay = u.replay,
				unsuccessful = u.unsuccessful
			FROM unnest($1::uuid[], $2::timestamptz[], $3::bigint[], $4::text[], $5::integer[], $6::integer[], $7::timestamptz[],
				$8::bigint[], $9::integer[], $10::integer[], $11::text[], $12::text[], $13::text[], $14::bytea[], $15::uuid[], $16::text[])
			AS u (id, completed_at, revision, status, attempts, automatic, attempted_at, duration_micros, renumbered_from,
				response_status, trigger, failure_reason, error_message, response_body, replay, unsuccessful)
			WHERE d.id = u.id`,
			attempted.id, attempted.completedAt, attempted.revision, attempted.status, attempted.attempts, attempted.automatic,
			last.attemptedAt, last.durationMicros, last.renumberedFrom, last.responseStatus, last.trigger, last.failureReason,
			last.errorMessage, last.responseBody, attempted.replay, attempted.unsuccessful)
	}
	if len(other.id) > 0 {
		batch.Queue(`
			UPDATE deliveries d SET completed_at = u.completed_at, revision = u.revision, status = u.status, replay = u.replay,
				unsuccessful = u.unsuccessful
			FROM unnest($1::uuid[], $2::timestamptz[], $3::bigint[], $4::text[], $5::uuid[], $6::text[])
			AS u (id, completed_at, revision, status, replay, unsuccessful)
			WHERE d.id = u.id`, other.id, other.completedAt, other.revision, other.status, other.replay, other.unsuccessful)
	}
}

// due are rows of the table due.
type due struct {
	id, destination    column.UUIDs
	dueAt, availableAt column.Times
	worker             column.NullInts
	replay             column.NullUUIDs
}

func (d *due) add(r *row) {
	d.id, d.destination = append(d.id, r.id), append(d.destination, r.destination)
	d.dueAt, d.availableAt = append(d.dueAt, r.dueAt), append(d.availableAt, r.availableAt)
	d.worker, d.replay = append(d.worker, int(r.worker)), append(d.replay, r.replay)
}

func (d *due) insert(batch *pgx.Batch, onConflict string) {
	if len(d.id) > 0 {
		batch.Queue(`INSERT INTO due (id, destination, due_at, available_at, worker, replay)
			SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::integer[], $6::uuid[])`+onConflict,
			d.id, d.destination, d.dueAt, d.availableAt, d.worker, d.replay)
	}
}

func (f *fold) writeDue(batch *pgx.Batch) {
	var (
		over       column.UUIDs
		first, set due
	)
	for _, r := range f.rows {
		switch {
		case !r.dueTouched:
		case r.dueAt.IsZero() && r.wasDue():
			over = append(over, r.id)
		case r.dueAt.IsZero():
		case r.wasDue():
			set.add(r)
		default:
			first.add(r)
		}
	}
	if len(over) > 0 {
		batch.Queue("DELETE FROM due WHERE id = ANY($1)", over)
	}
	first.insert(batch, "")
	set.insert(batch, ` ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at, available_at = excluded.available_at,
			worker = excluded.worker, replay = excluded.replay`)
}
