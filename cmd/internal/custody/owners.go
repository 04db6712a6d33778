package custody

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/destination"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/clientcertificates"
	"carillon/projections/destinations"
)

// Data keys are owned by destinations, which have streams, and by client certificates, which are in the streams of
// their organizations.

// Owners are the owners of data keys.
type Owners struct {
	Live  map[uuid.UUID]Owner
	Ended map[uuid.UUID]struct{} // client certificates that were replaced or removed
}

// Owner is an owner that lives.
type Owner struct {
	Organization uuid.UUID // of a client certificate. Zero for a destination.
	Newest       []byte    // the last value that was sealed for it; not known of read models
}

// NewOwners returns an empty list.
func NewOwners() Owners {
	return Owners{Live: map[uuid.UUID]Owner{}, Ended: map[uuid.UUID]struct{}{}}
}

// Field returns the field of the newest value that is sealed for an owner.
func (o Owner) Field() sealing.Field {
	if o.Organization != uuid.Nil {
		return sealing.PrivateKey
	}
	return sealing.Secret
}

// Apply takes in an event. Those of other categories change nothing.
func (o Owners) Apply(recorded *eventstore.Recorded) error {
	category, _, _ := strings.Cut(recorded.Stream, "-")
	switch {
	case recorded.Type == eventstore.Filler:
	case category == destination.Aggregate.Category:
		return o.applyDestination(recorded)
	case category == clientcertificate.Aggregate.Category:
		return o.applyCertificate(recorded)
	}
	return nil
}

// alive has the owners that exist.
type alive struct {
	Owners
	partial bool // the event store could not be asked: some may be deleted, others missing
}

// kind describes one kind of owners.
type kind struct {
	model    projections.ReadModel
	category string
	rows     string // id, organization (of a certificate), whether it ended
}

var kinds = []kind{
	{
		model:    destinations.ReadModel,
		category: destination.Aggregate.Category,
		rows:     "SELECT id, '00000000-0000-0000-0000-000000000000'::uuid, false FROM destinations.destinations",
	},
	{
		model:    clientcertificates.ReadModel,
		category: clientcertificate.Aggregate.Category,
		rows:     "SELECT id, organization, ended_at IS NOT NULL FROM client_certificates.certificates",
	},
}

func (o Owners) applyDestination(recorded *eventstore.Recorded) error {
	event, err := destination.Events.Decode(recorded)
	if err != nil {
		return err
	}
	id := recorded.StreamID()
	switch e := event.(type) {
	case destination.Created:
		o.Live[id] = Owner{}
	case destination.SecretMinted:
		o.Live[id] = Owner{Newest: e.Sealed}
	case destination.SecretRotated:
		o.Live[id] = Owner{Newest: e.Sealed}
	case destination.Deleted:
		delete(o.Live, id)
	case destination.Revised, destination.SecretExpired,
		destination.Enabled, destination.Disabled, destination.AutoDisabled: // neither begin nor end one
	}
	return nil
}

func (o Owners) applyCertificate(recorded *eventstore.Recorded) error {
	event, err := clientcertificate.Events.Decode(recorded)
	if err != nil {
		return err
	}
	if ended := clientcertificate.Ended(event); ended != uuid.Nil {
		delete(o.Live, ended)
		o.Ended[ended] = struct{}{}
	}
	switch e := event.(type) {
	case clientcertificate.Set:
		o.Live[e.ID] = Owner{Organization: recorded.StreamID(), Newest: e.Key}
	case clientcertificate.Replaced:
		o.Live[e.ID] = Owner{Organization: recorded.StreamID(), Newest: e.Key}
	case clientcertificate.Removed:
	}
	return nil
}

func (c *Custody) readRows(ctx context.Context, k kind, found alive) error {
	rows, err := c.Pool.Query(ctx, k.rows)
	if err != nil {
		return fmt.Errorf("data keys: %w", err)
	}
	var id, organization uuid.UUID
	var ended bool
	_, err = pgx.ForEachRow(rows, []any{&id, &organization, &ended}, func() error {
		if ended {
			found.Ended[id] = struct{}{}
		} else {
			found.Live[id] = Owner{Organization: organization}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("data keys: %w", err)
	}
	return nil
}

// fate says what became of an owner.
type fate int

const (
	unknown fate = iota // it is about to be made, or the event store is an older one, and the newer may come back
	lives
	ended
)

// fate asks the events what became of an owner, and returns the newest value that is sealed for it if it lives.
func (c *Custody) fate(ctx context.Context, among alive, owner uuid.UUID) (now fate, newest []byte, err error) {
	if _, over := among.Ended[owner]; over {
		return ended, nil, nil
	}
	if organization := among.Live[owner].Organization; organization != uuid.Nil {
		known, err := clientcertificate.Aggregate.Load(ctx, c.Store, organization)
		if shown := known.State.Certificate; err != nil || shown.ID == owner {
			return lives, shown.Key, err
		}
		return ended, nil, nil
	}
	known, err := destination.Aggregate.Load(ctx, c.Store, owner)
	switch {
	case err != nil || known.State.Status == destination.StatusNone:
		return unknown, nil, err
	case known.State.Status == destination.StatusDeleted:
		return ended, nil, nil
	}
	if secrets := known.State.Secrets; len(secrets) > 0 {
		newest = secrets[len(secrets)-1].Sealed
	}
	return lives, newest, nil
}

// Lost has the owners that live and have no data key.
type Lost struct {
	Destinations []uuid.UUID
	Certificates []uuid.UUID // the organizations whose client certificates they are
}

// Any reports whether there are some.
func (l Lost) Any() bool { return len(l.Destinations)+len(l.Certificates) > 0 }

// String names the first of them, and says how many there are.
func (l Lost) String() string {
	var parts []string
	if n := len(l.Destinations); n > 0 {
		parts = append(parts, fmt.Sprintf("%d live destinations: %s", n, Named(l.Destinations)))
	}
	if n := len(l.Certificates); n > 0 {
		whose := "1 client certificate, of organization "
		if n > 1 {
			whose = fmt.Sprintf("%d client certificates, of organizations ", n)
		}
		parts = append(parts, whose+Named(l.Certificates))
	}
	return strings.Join(parts, "; and ")
}

// Lost sorts owners that have lost their keys by their kind.
func (o Owners) Lost(owners []uuid.UUID) (l Lost) {
	for _, owner := range sorted(owners) {
		if organization := o.Live[owner].Organization; organization != uuid.Nil {
			l.Certificates = append(l.Certificates, organization)
		} else {
			l.Destinations = append(l.Destinations, owner)
		}
	}
	return l
}

// sorted returns ids in an order that stays.
func sorted(ids []uuid.UUID) []uuid.UUID {
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	return ids
}

const mostNamed = 5

// Named lists ids for a message: the first of them, and how many more there are.
func Named(ids []uuid.UUID) string {
	names := make([]string, 0, mostNamed)
	for _, id := range ids[:min(len(ids), mostNamed)] {
		names = append(names, id.String())
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
