package notices

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/command/catalog"
	"carillon/eventstore"
)

// noticePlace has the paths that show more: the program does not know its public address.
type noticePlace struct {
	API     string `json:"api,omitempty"` // operators have none for things of organizations
	Console string `json:"console"`
}

// where returns where its receiver looks. Operators have pages of each organization.
func (n notice) where() noticePlace {
	page, api := "/destinations/"+n.data.Destination.String(), "/events"
	switch {
	case n.data.Source != uuid.Nil:
		page, api = "/sources/"+n.data.Source.String(), "/admin"
	case n.kind == catalog.DeliveryExhausted:
		page = "/deliveries/" + n.data.Delivery.String()
	}
	if n.data.Organization != uuid.Nil {
		return noticePlace{Console: "/console/organizations/" + n.data.Organization.String() + page}
	}
	return noticePlace{API: api + page, Console: "/console" + page}
}

// noticeEvent is the event whose delivery a notice is about. Only the id is known of one that is retired.
type noticeEvent struct {
	ID      uuid.UUID `json:"id"`
	Type    string    `json:"type,omitempty"`
	Subject string    `json:"subject,omitempty"`
}

// lastAnswer is the outcome of an attempt, named as in the API, without the body and the headers of the answer.
type lastAnswer struct {
	Status  int              `json:"responseStatus,omitzero"` // 0 without an answer
	Failure delivery.Failure `json:"failureReason,omitempty"`
	Reason  string           `json:"reason,omitempty"` // the failure in words
	Message string           `json:"errorMessage,omitempty"`
}

// Failing sends the notice that a destination is halfway to being disabled, after failures in a row.
func (n *Notices) Failing(ctx context.Context, cause *eventstore.Recorded, a delivery.Attempted, failures int,
	message string) error {
	return n.ofAttempt(ctx, cause, a, catalog.DestinationFailing, noticeData{Message: message, Failures: failures})
}

// ofAttempt sends a notice that follows from an attempt.
func (n *Notices) ofAttempt(ctx context.Context, cause *eventstore.Recorded, a delivery.Attempted, kind string,
	data noticeData) error {
	event, err := eventOf(cause)
	if err != nil {
		return err
	}
	data.Destination = a.Destination
	data.tried(cause.StreamID(), event, a.Outcome)
	return n.send(ctx, cause, notice{kind, a.Organization, data})
}

// tried adds a delivery, its event and the outcome of its attempt.
func (d *noticeData) tried(id, event uuid.UUID, o delivery.Outcome) {
	d.Delivery = id
	if event != uuid.Nil {
		d.Event = &noticeEvent{ID: event}
	}
	d.LastAnswer = &lastAnswer{
		Status:  o.ResponseStatus,
		Failure: o.FailureReason,
		Reason:  o.FailureReason.Words(),
		Message: o.ErrorMessage,
	}
}

// attemptBefore adds the attempt that disabled a destination, unless it is retired or an earlier version recorded it.
func (n *Notices) attemptBefore(ctx context.Context, cause *eventstore.Recorded, to *noticeData) error {
	metadata, err := eventstore.ParseMetadata(cause.Metadata)
	if err != nil || metadata.CorrelationID == uuid.Nil {
		return err
	}
	id := dispatch.DeliveryID(metadata.CorrelationID, cause.StreamID())
	for recorded, err := range n.store.Read(ctx, delivery.Aggregate.Stream(id), 0) {
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read attempts for a notice: %w", err)
		}
		if recorded.ID != metadata.CausationID {
			continue
		}
		event, err := delivery.Events.Decode(&recorded)
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case delivery.Attempted:
			to.tried(id, metadata.CorrelationID, e.Outcome)
		case delivery.Superseded, delivery.Discarded, delivery.Reinstated, delivery.ReplayRequested,
			delivery.ReplayDropped, delivery.RetryRequested: // disable nothing
		}
		return nil
	}
	return nil
}

// nameEvent adds type and subject to an event, unless it is retired.
func (n *Notices) nameEvent(ctx context.Context, event *noticeEvent) error {
	if event == nil || event.Type != "" {
		return nil
	}
	of, err := publication.Aggregate.Load(ctx, n.store, event.ID)
	if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
		return fmt.Errorf("read event for a notice: %w", err)
	}
	if of.State.First != nil {
		event.Type, event.Subject = of.State.First.Type, of.State.First.Subject
	}
	return nil
}

// eventOf returns the published event that a delivery's event is about.
func eventOf(recorded *eventstore.Recorded) (uuid.UUID, error) {
	metadata, err := eventstore.ParseMetadata(recorded.Metadata)
	return metadata.CorrelationID, err
}

// sourcesPath is the path of sources in the admin API.
const sourcesPath = "/admin/sources/"

// AfterSource takes in the end of a walk through a source: operators hear of one that needs them.
func (n *Notices) AfterSource(ctx context.Context, cause *eventstore.Recorded) error {
	event, err := source.Events.Decode(cause)
	if err != nil {
		return err
	}
	data := noticeData{Source: cause.StreamID()}
	switch e := event.(type) {
	case source.CredentialsMissing:
		data.Reason, data.Message = "needs_credentials", e.Message
	case source.JavaScriptNeeded:
		data.Reason, data.Message = "needs_javascript", e.Message
	case source.CollectionFailed:
		if source.Lasting(e.Reason) {
			data.Reason, data.Message = e.Reason, e.Message
		}
	case source.Registered, source.CollectionRequested, source.CollectionStarted, source.CollectionCompleted,
		source.Paused, source.Resumed, source.Revised: // operators' doing, or no trouble
	}
	if data.Reason == "" {
		return nil
	}
	return n.send(ctx, cause, notice{kind: catalog.SourceNeedsAttention, data: data})
}
