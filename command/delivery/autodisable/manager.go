package autodisable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/source"
	"carillon/aggregates/subscription"
	"carillon/command/delivery/notices"
	"carillon/eventstore"
)

// Name is its name as consumer and as actor.
const Name = "destination_health"

// Policy limits the failures before the platform disables a destination.
type Policy struct {
	After     int           // consecutive failed attempts
	MinStreak time.Duration // from the first of them to the last; 0 is allowed
}

// Manager is the process manager that disables destinations which fail, or which say that they are gone, and
// makes the notices about destinations and sources.
type Manager struct {
	eventstore.ProcessState

	store   eventstore.Store
	policy  Policy
	streaks *eventstore.SavedTable[uuid.UUID, streak]
	notices *notices.Notices
	log     *slog.Logger
}

// streak counts consecutive failures of a destination, and changes of its status before.
type streak struct {
	Failures int       `json:"failures"`
	Since    time.Time `json:"since,omitzero"`
	Switches int       `json:"switches,omitzero"` // see destination.State
	Noticed  bool      `json:"noticed,omitzero"`  // no notice that it fails is to be made any more
}

// New makes a watcher of the destinations' health; each run of it wants a fresh one.
func New(store eventstore.Store, policy Policy, log *slog.Logger) *Manager {
	h := &Manager{store: store, policy: policy, log: log}
	h.streaks = eventstore.NewSavedTable[uuid.UUID, streak](&h.ProcessState, "streak", uuid.Parse)
	h.notices = notices.New(store, &h.ProcessState, Name)
	return h
}

// Traits implements eventstore.ProcessManager. Of successes it only forgets failures, so it lingers. Attempts are
// retired, and most of its state follows from them.
func (h *Manager) Traits() eventstore.Traits {
	return eventstore.Traits{
		Name:    Name,
		Version: 1,
		Filter: eventstore.Categories(delivery.Aggregate.Category, destination.Aggregate.Category,
			subscription.Aggregate.Category, source.Aggregate.Category),
		Lingers: true,
		Folded: &eventstore.Folded{
			Filter: eventstore.Categories(destination.Aggregate.Category),
			Fold:   h.fold,
			Rows:   func() ([]eventstore.SavedRow, error) { return h.Rows("notice_address") },
		},
	}
}

func (h *Manager) fold(recorded *eventstore.Recorded) error {
	event, err := destination.Events.Decode(recorded)
	if err != nil {
		return err
	}
	return h.notices.Fold(recorded, event)
}

// Changed implements eventstore.ProcessManager.
func (h *Manager) Changed() ([]eventstore.SavedRow, error) {
	h.notices.DropOldPaces()
	return h.ProcessState.Changed()
}

// React implements eventstore.ProcessManager.
func (h *Manager) React(ctx context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		recorded := &batch[i]
		var err error
		h.notices.Newest = recorded.Created
		switch recorded.Category() {
		case delivery.Aggregate.Category:
			err = h.afterAttempt(ctx, recorded)
		case subscription.Aggregate.Category:
			err = h.notices.AfterSubscription(ctx, recorded)
		case source.Aggregate.Category:
			err = h.notices.AfterSource(ctx, recorded)
		default:
			err = h.afterChange(ctx, recorded)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// afterChange forgets the streak of a destination that starts afresh or ends.
func (h *Manager) afterChange(ctx context.Context, recorded *eventstore.Recorded) error {
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
		s.Noticed = true // its owner knows
		h.set(id, s)
	case destination.Deleted:
		h.set(id, streak{})
	case destination.Created, destination.Revised,
		destination.SecretMinted, destination.SecretRotated, destination.SecretExpired: // leave the streak as it is
	}
	return h.notices.AfterChange(ctx, recorded, event)
}

func (h *Manager) of(id uuid.UUID) streak {
	if known := h.streaks.Get(id); known != nil {
		return *known
	}
	return streak{}
}

// set keeps a streak unless it is zero, as of a healthy destination that was never switched.
func (h *Manager) set(id uuid.UUID, s streak) {
	if h.of(id) == s {
		return
	}
	if s == (streak{}) {
		h.streaks.Set(id, nil)
	} else {
		h.streaks.Set(id, &s)
	}
}

func (h *Manager) afterAttempt(ctx context.Context, recorded *eventstore.Recorded) error {
	event, err := delivery.Events.Decode(recorded)
	if err != nil {
		return err
	}
	switch e := event.(type) {
	case delivery.Attempted:
		if err := h.notices.AfterAttempt(ctx, recorded, e); err != nil {
			return err
		}
		return h.count(ctx, recorded, e)
	// Say nothing about the endpoint.
	case delivery.Superseded, delivery.Discarded, delivery.Reinstated, delivery.ReplayRequested,
		delivery.ReplayDropped, delivery.RetryRequested:
	}
	return nil
}

// count adds an attempt to the streak of its destination, and switches the destination off if that is long enough. That
// of the operators stays on: it is a setting.
func (h *Manager) count(ctx context.Context, recorded *eventstore.Recorded,
	attempted delivery.Attempted) error {
	if attempted.Organization == destination.Operators {
		return nil
	}
	if attempted.Succeeded() {
		h.set(attempted.Destination, streak{Switches: h.of(attempted.Destination).Switches})
		return nil
	}
	s := h.of(attempted.Destination)
	if !attempted.LostRace() {
		if s.Failures == 0 {
			s.Since = attempted.At
		}
		s.Failures++
		h.set(attempted.Destination, s)
	}
	switch {
	case attempted.ResponseStatus == http.StatusGone:
		return h.disable(ctx, recorded, attempted, s.Switches,
			fmt.Sprintf("Disabled automatically: the endpoint answered 410 Gone (%s)", failures(s.Failures)))
	case s.Failures >= h.policy.After && attempted.At.Sub(s.Since) >= h.policy.MinStreak:
		return h.disable(ctx, recorded, attempted, s.Switches,
			fmt.Sprintf("Disabled automatically after %s", failures(s.Failures)))
	case s.Failures >= (h.policy.After+1)/2 && !s.Noticed:
		s.Noticed = true
		h.set(attempted.Destination, s)
		return h.notices.Failing(ctx, recorded, attempted, s.Failures, fmt.Sprintf("%s: %s. %d disable the destination",
			failures(s.Failures), attempted.FailureReason.Words(), h.policy.After))
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
func (h *Manager) disable(ctx context.Context, cause *eventstore.Recorded, a delivery.Attempted,
	switches int, reason string) error {
	metadata, err := eventstore.ParseMetadata(cause.Metadata)
	if err != nil {
		return err
	}
	command := destination.AutoDisable{Switches: switches, Reason: reason, At: cause.RecordedAt()}
	disabled, err := destination.Aggregate.Execute(ctx, h.store, a.Destination, command, destination.Options{
		CommandID: cause.ID,
		Metadata: eventstore.Metadata{
			Organization:  a.Organization,
			CorrelationID: metadata.CorrelationID,
			CausationID:   cause.ID,
			Actor:         Name,
			Reason:        reason,
		},
	})
	if errors.Is(err, eventstore.ErrStreamDeleted) || errors.Is(err, destination.ErrUnknown) {
		return nil // deleted meanwhile
	}
	if len(disabled.Events) > 0 {
		h.log.Warn("destination auto-disabled",
			"destination", a.Destination, "organization", a.Organization, "reason", reason)
	}
	return err
}
