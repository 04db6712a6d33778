// Package health is the read model of how destinations answer.
//
// Every failed attempt counts, automatic or replayed. A success ends the streak and forgets the last failure. Enabling
// a destination begins a new streak, so that one failure right after it does not disable it again; the last failure
// stays, because there was no success since.
package health

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of how destinations answer.
var ReadModel = projections.ReadModel{
	Name: "health",
	// 2: an attempt that lost its race is no separate failure; 3: retirement; 4: types and reasons of answers
	Version: 4,
	Schema:  schema,
	Filter: eventstore.Categories(delivery.Aggregate.Category, destination.Aggregate.Category,
		retirement.Aggregate.Category),
	Project: project,
}

// change is a batch's change of one destination's row.
type change struct {
	created, deleted bool
	reset            bool // the stored streak ended within the batch
	succeeded        bool // and with it the stored last failure
	// Failures are counted since the reset, or since the batch began, and the last one since succeeded.
	retirement.Health
}

func (c *change) attempted(e delivery.Attempted) {
	at := e.At.Add(e.Duration())
	if e.Succeeded() {
		if at.Before(c.LastSuccessAt) {
			at = c.LastSuccessAt
		}
		*c = change{
			created:   c.created,
			deleted:   c.deleted,
			reset:     true,
			succeeded: true,
			Health:    retirement.Health{LastSuccessAt: at},
		}
		return
	}
	if e.LostRace() {
		return
	}
	if c.ConsecutiveFailures == 0 {
		c.StreakStartedAt = at
	}
	c.ConsecutiveFailures++
	c.LastFailureAt, c.LastErrorMessage = at, e.ErrorMessage
}

func (c *change) enabled() { c.reset, c.ConsecutiveFailures, c.StreakStartedAt = true, 0, time.Time{} }

// fold gathers the changes of a batch by destination, and its additions to answers.
func fold(batch []eventstore.Recorded) (map[uuid.UUID]*change, answers, error) {
	changes, counted := map[uuid.UUID]*change{}, answers{}
	of := func(destination uuid.UUID) *change {
		c := changes[destination]
		if c == nil {
			c = new(change)
			changes[destination] = c
		}
		return c
	}
	for i := range batch {
		recorded := &batch[i]
		switch recorded.Category() {
		case retirement.Aggregate.Category:
			continue
		case delivery.Aggregate.Category:
			event, err := delivery.Events.Decode(recorded)
			if err != nil {
				return nil, nil, err
			}
			switch e := event.(type) {
			case delivery.Attempted:
				of(e.Destination).attempted(e)
				counted.attempted(e)
				// say nothing about the endpoint
			case delivery.Superseded, delivery.Discarded, delivery.Reinstated, delivery.ReplayRequested,
				delivery.ReplayDropped, delivery.RetryRequested:
			}
			continue
		}
		event, err := destination.Events.Decode(recorded)
		if err != nil {
			return nil, nil, err
		}
		switch event.(type) {
		case destination.Created:
			of(recorded.StreamID()).created = true
		case destination.Enabled:
			of(recorded.StreamID()).enabled()
		case destination.Deleted:
			of(recorded.StreamID()).deleted = true
			counted.drop(recorded.StreamID())
		case destination.Disabled, destination.AutoDisabled: // the streak is shown as it was
			// say nothing
		case destination.Revised, destination.SecretMinted, destination.SecretRotated, destination.SecretExpired:
		}
	}
	return changes, counted, nil
}

// changed is the change of one destination.
type changed struct {
	destination uuid.UUID
	*change
}

// healthColumns are the values of a health that statements change rows by.
var healthColumns = []column.Column[*retirement.Health]{
	column.New[[]int]("failures", "integer", func(h *retirement.Health) int { return h.ConsecutiveFailures }),
	column.New[column.Times]("streak_started_at", "timestamptz", func(h *retirement.Health) time.Time {
		return h.StreakStartedAt
	}),
	column.New[column.Times]("last_success_at", "timestamptz", func(h *retirement.Health) time.Time {
		return h.LastSuccessAt
	}),
	column.New[column.Times]("last_failure_at", "timestamptz", func(h *retirement.Health) time.Time {
		return h.LastFailureAt
	}),
	column.New[column.NullTexts]("last_error_message", "text", func(h *retirement.Health) string {
		return h.LastErrorMessage
	}),
}

// An attempt that ends after its destination was deleted finds no row.
var updateHealth = column.SQL(`
	UPDATE health h SET
		consecutive_failures = u.failures + CASE WHEN u.reset THEN 0 ELSE h.consecutive_failures END,
		streak_started_at = CASE WHEN u.reset THEN u.streak_started_at
		ELSE coalesce(h.streak_started_at, u.streak_started_at) END,
		last_success_at = greatest(h.last_success_at, u.last_success_at),
		last_failure_at = CASE WHEN u.succeeded OR u.last_failure_at IS NOT NULL THEN u.last_failure_at
		ELSE h.last_failure_at END,
		last_error_message = CASE WHEN u.succeeded OR u.last_failure_at IS NOT NULL THEN u.last_error_message
		ELSE h.last_error_message END
	FROM %s WHERE h.destination = u.destination`,
	slices.Concat([]column.Column[changed]{
		column.New[column.UUIDs]("destination", "uuid", func(c changed) uuid.UUID { return c.destination }),
		column.New[[]bool]("reset", "boolean", func(c changed) bool { return c.reset }),
		column.New[[]bool]("succeeded", "boolean", func(c changed) bool { return c.succeeded }),
	}, column.Of(func(c changed) *retirement.Health { return &c.Health }, healthColumns...))...,
)

// project applies a batch.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	for len(batch) > 0 {
		before, retired, after, err := beforeRetired(batch)
		if err == nil {
			err = write(ctx, tx, before)
		}
		if err == nil && retired != nil {
			err = retire(ctx, tx, retired)
		}
		if err != nil {
			return err
		}
		batch = after
	}
	return nil
}

// write applies a batch without retirements.
func write(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	changes, counted, err := fold(batch)
	if err != nil {
		return err
	}
	var (
		created, deleted column.UUIDs
		rows             []changed
		statements       pgx.Batch
	)
	for destination, c := range changes {
		if c.deleted {
			deleted = append(deleted, destination)
			continue
		}
		if c.created {
			created = append(created, destination)
		}
		rows = append(rows, changed{destination, c})
	}
	if len(deleted) > 0 {
		statements.Queue("DELETE FROM health WHERE destination = ANY($1)", deleted)
		statements.Queue("DELETE FROM answers WHERE scope = ANY($1)", deleted)
	}
	if len(created) > 0 {
		statements.Queue("INSERT INTO health (destination) SELECT unnest($1::uuid[])", created)
	}
	updateHealth.Queue(&statements, rows)
	addAnswers.Queue(&statements, counted.rows())
	if statements.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return fmt.Errorf("write health: %w", err)
	}
	return nil
}
