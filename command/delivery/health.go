package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/eventstore"
)

// HealthName is the health watcher's name as consumer and as actor.
const HealthName = "health_watch"

// HealthPolicy says when the platform disables a destination by itself.
type HealthPolicy struct {
	After     int           // consecutive failed attempts
	MinStreak time.Duration // from the first of them to the last; 0 is allowed
}

// DefaultHealthPolicy spares endpoints that have a bad hour.
var DefaultHealthPolicy = HealthPolicy{After: 100, MinStreak: time.Hour}

// Health is the process manager that disables destinations which fail, or which say that they are gone.
type Health struct {
	store   eventstore.Store
	policy  HealthPolicy
	streaks map[uuid.UUID]*streak
	dirty   map[uuid.UUID]struct{}
}

// streak is what is known of a destination: its failures in a row, and how often its status was switched before.
type streak struct {
	Failures int       `json:"failures"`
	Since    time.Time `json:"since,omitzero"`
	Switches int       `json:"switches,omitzero"` // see destination.State
}

var _ eventstore.ProcessManager = (*Health)(nil)

// NewHealth makes a health watcher; each run of it wants a fresh one.
func NewHealth(store eventstore.Store, policy HealthPolicy) *Health {
	return &Health{store: store, policy: policy, streaks: map[uuid.UUID]*streak{}, dirty: map[uuid.UUID]struct{}{}}
}

// Name implements eventstore.ProcessManager.
func (*Health) Name() string { return HealthName }

// Version implements eventstore.ProcessManager.
func (*Health) Version() int { return 1 }

// Filter implements eventstore.ProcessManager.
func (*Health) Filter() eventstore.Filter {
	return eventstore.Categories(delivery.Aggregate.Category, destination.Aggregate.Category)
}

// Begin implements eventstore.ProcessManager.
func (*Health) Begin(eventstore.Position) {}

// Restore implements eventstore.ProcessManager.
func (h *Health) Restore(row eventstore.SavedRow) error {
	id, err := uuid.Parse(row.ID)
	if err != nil {
		return fmt.Errorf("saved streak %s: %w", row.ID, err)
	}
	var s streak
	if err := json.Unmarshal(row.Data, &s); err != nil {
		return fmt.Errorf("saved streak %s: %w", row.ID, err)
	}
	h.streaks[id] = &s
	return nil
}

// Changed implements eventstore.ProcessManager.
func (h *Health) Changed() ([]eventstore.SavedRow, error) {
	rows := make([]eventstore.SavedRow, 0, len(h.dirty))
	for id := range h.dirty {
		data, err := marshal(h.streaks[id])
		if err != nil {
			return nil, fmt.Errorf("save streak %s: %w", id, err)
		}
		rows = append(rows, eventstore.SavedRow{Kind: "streak", ID: id.String(), Data: data})
	}
	clear(h.dirty)
	return rows, nil
}

// React implements eventstore.ProcessManager.
func (h *Health) React(ctx context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		recorded := &batch[i]
		var err error
		if recorded.Category() == delivery.Aggregate.Category {
			err = h.afterAttempt(ctx, recorded)
		} else {
			err = h.afterChange(recorded)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// afterChange forgets the streak of a destination that starts afresh or ends.
func (h *Health) afterChange(recorded *eventstore.Recorded) error {
	event, err := destination.Events.Decode(recorded)
	if err != nil {
		return err
	}
	id := recorded.StreamID()
	switch event.(type) {
	case destination.Enabled:
		h.set(id, streak{Switches: h.of(id).Switches + 1}) // a fresh start
	case destination.Disabled, destination.AutoDisabled:
		s := h.of(id)
		s.Switches++
		h.set(id, s)
	case destination.Deleted:
		h.set(id, streak{})
	}
	return nil
}

func (h *Health) of(id uuid.UUID) streak {
	if known := h.streaks[id]; known != nil {
		return *known
	}
	return streak{}
}

// set keeps what is worth keeping: of a healthy destination that was never switched there is nothing.
func (h *Health) set(id uuid.UUID, s streak) {
	if h.of(id) == s {
		return
	}
	if s == (streak{}) {
		delete(h.streaks, id)
	} else {
		h.streaks[id] = &s
	}
	h.dirty[id] = struct{}{}
}

func (h *Health) afterAttempt(ctx context.Context, recorded *eventstore.Recorded) error {
	event, err := delivery.Events.Decode(recorded)
	if err != nil {
		return err
	}
	attempted, ok := event.(delivery.Attempted)
	switch {
	case !ok:
		return nil
	case attempted.Succeeded():
		h.set(attempted.Destination, streak{Switches: h.of(attempted.Destination).Switches})
		return nil
	}
	s := h.of(attempted.Destination)
	if s.Failures == 0 {
		s.Since = attempted.At
	}
	s.Failures++
	h.set(attempted.Destination, s)
	switch {
	case attempted.ResponseStatus == http.StatusGone:
		return h.disable(ctx, recorded, attempted, s.Switches, fmt.Sprintf("Disabled automatically: the endpoint answered 410 Gone (%s)", failures(s.Failures)))
	case s.Failures >= h.policy.After && attempted.At.Sub(s.Since) >= h.policy.MinStreak:
		return h.disable(ctx, recorded, attempted, s.Switches, fmt.Sprintf("Disabled automatically after %s", failures(s.Failures)))
	}
	return nil
}

func failures(n int) string {
	if n == 1 {
		return "1 failed attempt"
	}
	return fmt.Sprintf("%d consecutive failed attempts", n)
}

// disable appends under an id derived from the attempt: given the same events again it records nothing.
func (h *Health) disable(ctx context.Context, cause *eventstore.Recorded, a delivery.Attempted, switches int, reason string) error {
	command := destination.AutoDisable{Switches: switches, Reason: reason, At: recordedAt(cause)}
	_, err := destination.Aggregate.Execute(ctx, h.store, a.Destination, command, destination.Options{
		CommandID: cause.ID,
		Metadata:  eventstore.Metadata{Organization: a.Organization, CausationID: cause.ID, Actor: HealthName, Reason: reason},
	})
	if errors.Is(err, destination.ErrUnknown) {
		return nil // deleted meanwhile
	}
	return err
}
