package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore/instant"
	"carillon/projections/deliveries/deliverystate"
)

// Delivery is a row of the delivery list.
type Delivery struct {
	ID            uuid.UUID             `json:"id"`
	Destination   uuid.UUID             `json:"destinationId"`
	To            string                `json:"destinationName"`
	EventID       uuid.UUID             `json:"eventId"`
	Status        string                `json:"status"`
	State         deliverystate.State   `json:"state"`
	WaitsFor      *deliverystate.Reason `json:"waitsFor"`
	Waits         deliverystate.Wait    `json:"-"`
	AttemptCount  int                   `json:"attemptCount"`
	NextAttemptAt *time.Time            `json:"nextAttemptAt"` // DueAt; nil once it has ended, also while a replay is due
	// DueAt is the time of the retry schedule or of a requested replay, not before its destination's rest ends.
	DueAt       *time.Time   `json:"-"`
	CreatedAt   time.Time    `json:"createdAt"`
	CompletedAt *time.Time   `json:"completedAt"` // when it got its final status
	Event       EventSummary `json:"event"`
	LastAttempt *Attempt     `json:"lastAttempt"` // without its body
}

// EventSummary is a published event without its data.
type EventSummary struct {
	ID      uuid.UUID `json:"id,omitzero"` // zero in rows of deliveries, which have EventID
	Type    string    `json:"type"`
	Source  string    `json:"source"`
	Subject *string   `json:"subject"`
	Time    time.Time `json:"time"`
	// Sequence orders events by RecordedAt, when the store recorded them. nil and zero in deliveries of an event that
	// the read model of publications does not have yet.
	Sequence   *string    `json:"sequence"`
	RecordedAt time.Time  `json:"-"`
	FeedType   *string    `json:"feedType"` // nil without a feed
	FeedID     *uuid.UUID `json:"feedId"`
}

func (e *EventSummary) recorded(at time.Time) {
	sequence := instant.Sequence(at)
	e.RecordedAt, e.Sequence = at.UTC(), &sequence
}

// Attempt is one request to a destination.
type Attempt struct {
	Number          int           `json:"attemptNumber"`
	RenumberedFrom  *int          `json:"renumberedFrom"` // the number it started under, if another worker had taken that
	Trigger         string        `json:"trigger"`        // automatic, manual_replay
	ResponseStatus  *int          `json:"responseStatus"` // nil without an answer
	ResponseBody    []byte        `json:"-"`              // sealed
	ResponseHeaders []byte        `json:"-"`              // sealed. nil if the attempt succeeded
	ErrorMessage    *string       `json:"errorMessage"`
	FailureReason   *string       `json:"failureReason"` // nil if it succeeded
	AttemptedAt     time.Time     `json:"attemptedAt"`
	DurationMs      int64         `json:"durationMs"`
	Duration        time.Duration `json:"-"`
}

func (a *Attempt) took(micros int64) {
	a.Duration = time.Duration(micros) * time.Microsecond
	a.DurationMs = a.Duration.Milliseconds()
}

// DeliveryDetail is a delivery with its attempts and the data of its event.
type DeliveryDetail struct {
	Delivery
	Organization  uuid.UUID
	Subscriptions []uuid.UUID // for which it was created
	Attempts      []Attempt   // oldest first
	Data          []byte      // of the event, as published
}

var deliveryColumns = `
	d.id, d.destination, t.name, d.status, coalesce(` + isHeld + `, false),
	d.attempts, u.due_at, r.until, t.status, coalesce(o.status = 'suspended', false), d.created_at, d.completed_at,
	d.event_id, d.type, d.source, d.subject, d.event_time,
	(SELECT published_at FROM publications.publications WHERE id = d.event_id), d.feed_type, d.feed_id,
	d.renumbered_from, d.trigger, d.response_status, d.error_message, d.failure_reason, d.attempted_at, d.duration_micros`

// deliveryJoins are the rows beside a delivery d that deliveryColumns read; $1 is the current time.
const deliveryJoins = ` JOIN destinations.destinations t ON t.id = d.destination
	LEFT JOIN deliveries.due u ON u.id = d.id
	LEFT JOIN organizations.organizations o ON o.id = t.organization
	LEFT JOIN carillon.resting r ON r.destination = t.id AND r.asked_at >= t.updated_at AND r.until > $1`

// The orders of lists of deliveries.
const (
	newestFirst = " ORDER BY d.created_at DESC, d.id DESC"
	oldestFirst = " ORDER BY d.created_at, d.id"
)

// deliveriesOf reads the deliveries whose ids a statement selects; its first parameter is the current time.
func deliveriesOf(ctx context.Context, from querier, ids, order string, args []any) ([]Delivery, error) {
	return many(ctx, from, "deliveries", func(row pgx.CollectableRow) (Delivery, error) {
		now, _ := args[0].(time.Time)
		return scanDelivery(row, now)
	},
		"SELECT "+deliveryColumns+" FROM ("+ids+`) page
		JOIN deliveries.deliveries d ON d.id = page.id`+deliveryJoins+order, args...)
}

// scanDelivery reads deliveryColumns and any columns that follow them.
func scanDelivery(row pgx.CollectableRow, now time.Time, more ...any) (Delivery, error) {
	var (
		d            Delivery
		status       string
		facts        = deliverystate.Facts{Now: now}
		last         Attempt
		trigger      *string
		at, recorded *time.Time
		micros       *int64
	)
	e := &d.Event
	err := row.Scan(append([]any{&d.ID, &d.Destination, &d.To, &status, &facts.Held, &d.AttemptCount, &facts.DueAt,
		&facts.RestsUntil, &facts.Destination, &facts.Suspended, &d.CreatedAt, &d.CompletedAt,
		&d.EventID, &e.Type, &e.Source, &e.Subject, &e.Time, &recorded, &e.FeedType, &e.FeedID,
		&last.RenumberedFrom, &trigger, &last.ResponseStatus, &last.ErrorMessage, &last.FailureReason, &at, &micros},
		more...)...)
	if err != nil {
		return d, err
	}
	d.State = deliverystate.Of(status, facts.Held, d.AttemptCount)
	d.Status, facts.State, facts.Attempts, d.DueAt = d.State.Status(), d.State, d.AttemptCount, facts.DueAt
	if d.Waits = deliverystate.WaitOf(facts); d.Waits.For == deliverystate.Resting {
		d.DueAt = facts.RestsUntil
	}
	if d.Waits.For != "" {
		d.WaitsFor = &d.Waits.For
	}
	if d.State.Live() {
		d.NextAttemptAt = d.DueAt
	}
	if recorded != nil {
		e.recorded(*recorded)
	}
	if trigger != nil && at != nil && micros != nil {
		last.Number, last.Trigger, last.AttemptedAt = d.AttemptCount, *trigger, *at
		last.took(*micros)
		d.LastAttempt = &last
	}
	return d, nil
}

// Delivery finds a delivery with its attempts and its event. It returns ErrNotFound if its destination does not
// belong to the organization.
func (q *Queries) Delivery(ctx context.Context, organization, id uuid.UUID, now time.Time) (DeliveryDetail, error) {
	detail, err := one(ctx, q.Pool, "delivery", func(row pgx.CollectableRow) (d DeliveryDetail, err error) {
		d.Delivery, err = scanDelivery(row, now, &d.Organization, &d.Subscriptions, &d.Data)
		d.Event.ID = d.EventID
		return d, err
	}, "SELECT "+deliveryColumns+`, t.organization, d.subscriptions, p.data
		FROM deliveries.deliveries d`+deliveryJoins+`
		LEFT JOIN publications.publications p ON p.id = d.event_id
		WHERE d.id = $2 AND t.organization = $3`, now, id, organization)
	if err != nil {
		return DeliveryDetail{}, err
	}
	detail.Attempts, err = many(ctx, q.Pool, "attempts", scanAttempt,
		`SELECT number, renumbered_from, trigger, response_status, response_body, response_headers, error_message,
			failure_reason, attempted_at, duration_micros
		FROM deliveries.attempts WHERE delivery = $1 ORDER BY number`, id)
	return detail, err
}

// DeliveriesByID lists deliveries of any organization, in no order, and omits missing ones. The caller must not show
// a delivery to another organization.
func (q *Queries) DeliveriesByID(ctx context.Context, ids []uuid.UUID, now time.Time) ([]Delivery, error) {
	return deliveriesOf(ctx, q.Pool, "SELECT unnest($2::uuid[]) AS id", "", []any{now, ids})
}

func scanAttempt(row pgx.CollectableRow) (Attempt, error) {
	var (
		a      Attempt
		micros int64
	)
	err := row.Scan(&a.Number, &a.RenumberedFrom, &a.Trigger, &a.ResponseStatus, &a.ResponseBody, &a.ResponseHeaders,
		&a.ErrorMessage, &a.FailureReason, &a.AttemptedAt, &micros)
	a.took(micros)
	return a, err
}
