package notices

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/command/catalog"
	"carillon/command/delivery/dispatching"
	"carillon/eventstore"
)

// Notices makes deliveries to the destinations that organizations and operators name for notices. A notice is a
// publication that belongs to its destination instead of an organization: no feed, subscription or backfill finds it,
// and it is sent, retried and shown as any delivery. It is not safe for concurrent use.
type Notices struct {
	store     eventstore.Store
	actor     string
	addresses *eventstore.SavedTable[uuid.UUID, noticeAddress] // by destination
	byOrg     map[uuid.UUID]uuid.UUID                          // to the destination, if it is enabled
	paces     *eventstore.SavedTable[paceKey, noticePace]      // by kind and destination
	down      *eventstore.SavedTable[uuid.UUID, struct{}]      // auto-disabled, without a success since
	Newest    time.Time                                        // when the newest event was recorded
}

// noticeAddress is a destination that gets notices.
type noticeAddress struct {
	Organization uuid.UUID `json:"organization"`
	Off          bool      `json:"off,omitzero"` // disabled
}

// notice is a message about a destination, or a source, to the receivers of notices.
type notice struct {
	kind         string
	organization uuid.UUID
	data         noticeData
}

// subject returns what the notice is about, and the source of its event.
func (n notice) subject() (id uuid.UUID, source string) {
	if n.data.Source != uuid.Nil {
		return n.data.Source, sourcesPath + n.data.Source.String()
	}
	return n.data.Destination, catalog.DestinationsPath + n.data.Destination.String()
}

// noticeData is the data of a notice.
type noticeData struct {
	Organization uuid.UUID    `json:"organizationId,omitzero"` // for operators
	Destination  uuid.UUID    `json:"destinationId,omitzero"`
	Source       uuid.UUID    `json:"sourceId,omitzero"`
	Reason       string       `json:"reason,omitzero"` // of a source: a stable name
	Count        int          `json:"count"`           // of what happened since the last notice
	Message      string       `json:"message"`
	Where        noticePlace  `json:"where"`
	Delivery     uuid.UUID    `json:"deliveryId,omitzero"`
	Event        *noticeEvent `json:"event,omitzero"`
	LastAnswer   *lastAnswer  `json:"lastAnswer,omitzero"`
	Failures     int          `json:"consecutiveFailures,omitzero"`
	Subscription uuid.UUID    `json:"subscriptionId,omitzero"`
	Secrets      []uuid.UUID  `json:"secretIds,omitempty"`
	ExpiresAt    time.Time    `json:"expiresAt,omitzero"`
}

// New makes notices, whose state is a part of that of a process manager, which is their actor.
func New(store eventstore.Store, state *eventstore.ProcessState, actor string) *Notices {
	n := &Notices{
		store:     store,
		actor:     actor,
		addresses: eventstore.NewSavedTable[uuid.UUID, noticeAddress](state, "notice_address", uuid.Parse),
		byOrg:     map[uuid.UUID]uuid.UUID{},
		paces:     eventstore.NewSavedTable[paceKey, noticePace](state, "notice_pace", parsePaceKey),
		down:      eventstore.NewSavedTable[uuid.UUID, struct{}](state, "down", uuid.Parse),
	}
	n.addresses.Indexed = func(id uuid.UUID, before, after *noticeAddress) {
		if before != nil && n.byOrg[before.Organization] == id {
			delete(n.byOrg, before.Organization)
		}
		if after != nil && !after.Off {
			n.byOrg[after.Organization] = id
		}
	}
	return n
}

// AfterChange takes in a change of a destination, and makes the notices about it.
func (n *Notices) AfterChange(ctx context.Context, cause *eventstore.Recorded, event destination.Event) error {
	if err := n.Fold(cause, event); err != nil {
		return err
	}
	id := cause.StreamID()
	switch e := event.(type) {
	case destination.AutoDisabled:
		n.down.Set(id, &struct{}{})
		data := noticeData{Destination: id, Message: e.Reason}
		if err := n.attemptBefore(ctx, cause, &data); err != nil {
			return err
		}
		return n.about(ctx, cause, catalog.DestinationAutoDisabled, data)
	case destination.SecretRotated:
		if len(e.Expiring) > 0 {
			return n.about(ctx, cause, catalog.SecretExpiring, noticeData{
				Destination: id,
				Message:     "The secret was rotated: the earlier ones sign until they expire",
				Secrets:     e.Expiring,
				ExpiresAt:   e.ExpiresAt,
			})
		}
	case destination.Deleted:
		n.down.Set(id, nil)
	case destination.Created, destination.Revised, destination.Enabled, destination.Disabled,
		destination.SecretMinted, destination.SecretExpired: // the owner knows
	}
	return nil
}

// Fold folds a change of a destination into the addresses of notices.
func (n *Notices) Fold(cause *eventstore.Recorded, event destination.Event) error {
	id := cause.StreamID()
	switch e := event.(type) {
	case destination.Created:
		n.name(id, e.Organization, e.Settings)
	case destination.Revised:
		if n.addresses.Get(id) == nil && e.ExternalID != destination.NoticesExternalID {
			return nil
		}
		organization, err := organizationOf(cause)
		if err != nil {
			return err
		}
		n.name(id, organization, e.Settings)
	case destination.Enabled:
		n.setOff(id, false)
	case destination.Disabled, destination.AutoDisabled:
		n.setOff(id, true)
	case destination.Deleted:
		n.addresses.Set(id, nil)
	case destination.SecretMinted, destination.SecretRotated, destination.SecretExpired: // of the same address
	}
	return nil
}

// name takes in whether a destination is the one for notices.
func (n *Notices) name(id, organization uuid.UUID, s destination.Settings) {
	known := n.addresses.Get(id)
	switch is := s.ExternalID == destination.NoticesExternalID; {
	case is && known == nil:
		n.addresses.Set(id, &noticeAddress{Organization: organization})
	case !is && known != nil:
		n.addresses.Set(id, nil)
	}
}

// setOff takes in that a destination is disabled or enabled.
func (n *Notices) setOff(id uuid.UUID, off bool) {
	if known := n.addresses.Get(id); known != nil && known.Off != off {
		n.addresses.Set(id, &noticeAddress{Organization: known.Organization, Off: off})
	}
}

// AfterAttempt takes in an attempt: the last of a delivery, or the first success of a destination that was disabled.
func (n *Notices) AfterAttempt(ctx context.Context, cause *eventstore.Recorded, a delivery.Attempted) error {
	switch {
	case a.Succeeded() && n.down.Get(a.Destination) != nil:
		n.down.Set(a.Destination, nil)
		return n.ofAttempt(ctx, cause, a, catalog.DestinationRecovered, noticeData{
			Message: "The first success since the destination was disabled automatically",
		})
	case a.Status == delivery.StatusFailed && a.Trigger == delivery.Automatic && !a.LostRace():
		return n.ofAttempt(ctx, cause, a, catalog.DeliveryExhausted, noticeData{
			Message: "The last attempt failed, and no other follows: " + a.FailureReason.Words(),
		})
	}
	return nil
}

// AfterSubscription takes in a subscription that was deactivated because its organization lost a feed.
func (n *Notices) AfterSubscription(ctx context.Context, cause *eventstore.Recorded) error {
	event, err := subscription.Events.Decode(cause)
	if err != nil {
		return err
	}
	reason := "" // of a caller, who gives none
	switch e := event.(type) {
	case subscription.Deactivated:
		reason = e.Reason
	case subscription.Created, subscription.Revised, subscription.Activated, subscription.Deleted: // callers' doing
	}
	if reason == "" {
		return nil
	}
	of, err := subscription.Aggregate.Load(ctx, n.store, cause.StreamID())
	if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
		return fmt.Errorf("read subscription: %w", err)
	}
	if of.State.Destination == uuid.Nil {
		return nil // deleted meanwhile
	}
	return n.send(ctx, cause, notice{catalog.SubscriptionDeactivated, of.State.Organization, noticeData{
		Destination:  of.State.Destination,
		Message:      reason,
		Subscription: cause.StreamID(),
	}})
}

// about sends a notice to the organization that an event's metadata name.
func (n *Notices) about(ctx context.Context, cause *eventstore.Recorded, kind string, data noticeData) error {
	organization, err := organizationOf(cause)
	if err != nil {
		return err
	}
	return n.send(ctx, cause, notice{kind, organization, data})
}

func organizationOf(recorded *eventstore.Recorded) (uuid.UUID, error) {
	metadata, err := eventstore.ParseMetadata(recorded.Metadata)
	return metadata.Organization, err
}

// send sends a notice to its organization and to the operators. There are none about the address of the operators.
func (n *Notices) send(ctx context.Context, cause *eventstore.Recorded, about notice) error {
	if about.organization == destination.Operators {
		return nil
	}
	err := n.sendTo(ctx, cause, about.organization, about.kind, about)
	if err == nil {
		about.data.Organization = about.organization
		err = n.sendTo(ctx, cause, destination.Operators, about.kind+" to operators", about)
	}
	return err
}

// sendTo records a notice to an organization and its delivery, unless it has no address for it or it is about that.
// name distinguishes it from the other notices that follow from the cause.
func (n *Notices) sendTo(ctx context.Context, cause *eventstore.Recorded, organization uuid.UUID, name string,
	about notice) error {
	to, wanted := n.byOrg[organization]
	if !wanted || to == about.data.Destination {
		return nil
	}
	id := uuid.NewSHA1(cause.ID, []byte(name))
	subject, from := about.subject()
	scheduled := dispatch.Scheduled{Destination: to, Organization: organization, Subscriptions: []uuid.UUID{}}
	key := paceKey(name + " " + subject.String())
	pace, record := n.pace(key, dispatch.DeliveryID(id, to), cause.RecordedAt(), &scheduled)
	if !record {
		return nil
	}
	about.data.Count, about.data.Where = pace.Count, about.where()
	if err := n.nameEvent(ctx, about.data.Event); err != nil {
		return err
	}
	data, err := json.Marshal(about.data)
	if err != nil {
		return fmt.Errorf("encode notice: %w", err)
	}
	metadata := eventstore.Metadata{
		Organization:  organization,
		CorrelationID: id,
		CausationID:   cause.ID,
		Actor:         n.actor,
	}
	published := publication.Published{
		Organization: to,
		Type:         about.kind,
		Source:       from,
		Subject:      subject.String(),
		Time:         cause.RecordedAt(),
		Data:         data,
	}
	_, err = publication.Aggregate.Execute(ctx, n.store, id, publication.Publish{Published: published},
		publication.Options{CommandID: eventstore.EventID(id, 0), Metadata: metadata})
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		return nil // it was made, and is retired
	}
	if err != nil {
		return fmt.Errorf("publish notice: %w", err)
	}
	return n.schedule(ctx, id, published, scheduled, metadata)
}

// schedule records the delivery of a notice, and ends the one that waited before.
func (n *Notices) schedule(ctx context.Context, id uuid.UUID, p publication.Published, s dispatch.Scheduled,
	metadata eventstore.Metadata) error {
	_, err := dispatch.Aggregate.Execute(ctx, n.store, id, dispatch.Schedule{
		DeliveriesScheduled: dispatch.DeliveriesScheduled{
			Publication: id,
			Event:       dispatching.SummaryOf(p),
			Deliveries:  []dispatch.Scheduled{s},
			At:          p.Time,
		},
	}, dispatch.Options{CommandID: eventstore.EventID(id, 1), Metadata: metadata})
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		return nil // it was made, and is retired
	}
	if err != nil {
		return fmt.Errorf("schedule notice: %w", err)
	}
	if s.Supersedes == uuid.Nil {
		return nil
	}
	return dispatching.Supersede(ctx, n.store, s.Supersedes, dispatch.DeliveryID(id, s.Destination), p.Time, metadata)
}
