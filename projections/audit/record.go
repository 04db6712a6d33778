package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/auditor"
	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/aggregates/feed"
	"carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/aggregates/source"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/projections/column"
)

// Kinds of things on record. Categories of streams that are no kind belong to another thing: a subscription and a
// disclosure to their destination, a client certificate to its organization.
const (
	KindOrganization = "organization"
	KindKey          = "key"
	KindDestination  = "destination"
	KindFeed         = "feed"
	KindSource       = "source"
	KindOperator     = "operator"
	KindAuditor      = "auditor"
	KindPerson       = "person" // of an organization, at the console
	KindSecret       = "secret" // of a destination
)

// Kinds returns all kinds.
func Kinds() []string {
	return []string{
		KindOrganization, KindKey, KindDestination, KindFeed, KindSource, KindOperator, KindAuditor, KindPerson,
		KindSecret,
	}
}

// categories are those of the streams on record.
var categories = []string{
	organization.Aggregate.Category, clientcertificate.Aggregate.Category, destination.Aggregate.Category,
	disclosure.Aggregate.Category, subscription.Aggregate.Category, feed.Aggregate.Category, source.Aggregate.Category,
	operator.Aggregate.Category, auditor.Aggregate.Category,
}

// names are those of the events on record. An unknown one stops the projector, as it does others.
var names = slices.Concat(organization.Events.Names(), clientcertificate.Events.Names(), destination.Events.Names(),
	disclosure.Events.Names(), subscription.Events.Names(), feed.Events.Names(), source.Events.Names(),
	operator.Events.Names(), auditor.Events.Names())

// hidden are the members of stored events that are no part of the record: secrets, sealed or as digests, and what only
// machines read. Organization and time have columns.
var hidden = []string{"hash", "sealed", "key", "chain", "cursor", "address", "headers", "organization", "at"}

// walks are the events of walks through sources, which no person makes.
var walks = []string{
	"source.collection-started.v1", "source.collection-completed.v1", "source.collection-failed.v1",
	"source.credentials-missing.v1", "source.javascript-needed.v1",
}

// thing is a subject of an entry.
type thing struct{ kind, id string }

// thingEntry is an entry of one of its things.
type thingEntry struct {
	entry
	thing

	main bool // of its first thing
}

var insertThings = column.Insert("record", append(entryColumns(func(r thingEntry) *entry { return &r.entry }),
	column.New[[]string]("kind", "text", func(r thingEntry) string { return r.kind }),
	column.New[[]string]("thing", "text", func(r thingEntry) string { return r.id }),
	column.New[[]bool]("main", "boolean", func(r thingEntry) bool { return r.main }),
	column.New[[]string]("stream", "text", func(r thingEntry) string { return r.Stream }))...)

// owner is the organization and destination of a stream, as its first event names them.
type owner struct{ organization, destination uuid.UUID }

// owners returns those of the streams of feeds and subscriptions whose first event is not in the batch.
func owners(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) (map[string]owner, error) {
	known, missing := map[string]owner{}, map[string]bool{}
	for i := range batch {
		switch batch[i].Category() {
		case feed.Aggregate.Category, subscription.Aggregate.Category:
			if batch[i].Revision > 0 {
				missing[batch[i].Stream] = true
			}
		}
	}
	if len(missing) == 0 {
		return known, nil
	}
	rows, err := tx.Query(ctx, `SELECT stream, kind, thing, organization FROM record
		WHERE stream = ANY($1) AND revision = 0 AND main`, slices.Collect(maps.Keys(missing)))
	if err != nil {
		return nil, fmt.Errorf("owners on record: %w", err)
	}
	var (
		stream, kind, id string
		organization     uuid.NullUUID
	)
	_, err = pgx.ForEachRow(rows, []any{&stream, &kind, &id, &organization}, func() error {
		o := owner{organization: organization.UUID}
		if kind == KindDestination {
			o.destination, _ = uuid.Parse(id) // the projector wrote it
		}
		known[stream] = o
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("owners on record: %w", err)
	}
	return known, nil
}

// stored are the members of events that say whose they are.
type stored struct {
	Organization uuid.UUID   `json:"organization"`
	Destination  uuid.UUID   `json:"destination"`
	SourceID     uuid.UUID   `json:"sourceId"`
	KeyID        string      `json:"keyId"`
	Of           any         `json:"of"` // the id of a key or certificate
	Name         string      `json:"name"`
	SecretID     uuid.UUID   `json:"secretId"`
	Expiring     []uuid.UUID `json:"expiring"`
	Secrets      []uuid.UUID `json:"secrets"` // that were shown
	TokenID      string      `json:"tokenId"`
	At           time.Time   `json:"at"`
}

// rowsOf returns the rows of an event, its first thing's first. It has none if it changes nothing that people decide,
// such as a walk through a source.
func rowsOf(recorded *eventstore.Recorded, meta eventstore.Metadata, known map[string]owner) ([]thingEntry, error) {
	if !slices.Contains(names, recorded.Type) {
		return nil, fmt.Errorf("%w: %s at %s@%d: unknown event name", eventstore.ErrUndecodable, recorded.Type,
			recorded.Stream, recorded.Revision)
	}
	if slices.Contains(walks, recorded.Type) {
		return nil, nil
	}
	var event stored
	var detail map[string]any
	for _, into := range []any{&event, &detail} {
		if err := json.Unmarshal(recorded.Data, into); err != nil {
			return nil, fmt.Errorf("%w: %s@%d: %w", eventstore.ErrUndecodable, recorded.Stream, recorded.Revision, err)
		}
	}
	if recorded.Revision == 0 {
		known[recorded.Stream] = owner{organization: event.Organization, destination: event.Destination}
	}
	if meta.Organization == uuid.Nil { // an operator did it
		meta.Organization = organizationOf(recorded, event, known)
	}
	for _, name := range hidden {
		delete(detail, name)
	}
	e, err := newEntry(recorded, meta, uuid.Nil, event.At, detail)
	if err != nil {
		return nil, err
	}
	var rows []thingEntry
	things := append(event.things(recorded, known), actorOf(meta.Actor))
	for _, secret := range append(slices.Concat(event.Expiring, event.Secrets), event.SecretID) {
		if secret != uuid.Nil {
			things = append(things, thing{KindSecret, secret.String()})
		}
	}
	for _, t := range things {
		if t.id != "" && !slices.ContainsFunc(rows, func(r thingEntry) bool { return r.thing == t }) {
			rows = append(rows, thingEntry{entry: e, thing: t, main: len(rows) == 0})
		}
	}
	return rows, nil
}

// organizationOf returns whose an event is, or uuid.Nil.
func organizationOf(recorded *eventstore.Recorded, event stored, known map[string]owner) uuid.UUID {
	switch recorded.Category() {
	case organization.Aggregate.Category, clientcertificate.Aggregate.Category:
		return recorded.StreamID()
	}
	if event.Organization != uuid.Nil {
		return event.Organization
	}
	return known[recorded.Stream].organization
}

// things returns the things that an event is about, the one that is changed first.
func (e stored) things(recorded *eventstore.Recorded, known map[string]owner) []thing {
	id := recorded.StreamID().String()
	switch recorded.Category() {
	case organization.Aggregate.Category, clientcertificate.Aggregate.Category:
		of, _ := e.Of.(string)
		if e.KeyID == "" {
			return []thing{{KindOrganization, id}}
		}
		return []thing{{KindKey, e.KeyID}, {KindKey, of}, {KindOrganization, id}}
	case subscription.Aggregate.Category:
		return []thing{{KindDestination, known[recorded.Stream].destination.String()}}
	case disclosure.Aggregate.Category:
		return []thing{{KindDestination, e.Destination.String()}}
	case feed.Aggregate.Category:
		things := []thing{{KindFeed, id}}
		if e.SourceID != uuid.Nil {
			things = append(things, thing{KindSource, e.SourceID.String()})
		}
		return things
	case operator.Aggregate.Category:
		return []thing{{KindOperator, e.Name}} // an act has no name: it is its actor's
	case auditor.Aggregate.Category:
		return []thing{{KindAuditor, e.TokenID}}
	}
	return []thing{{recorded.Category(), id}}
}

// actorOf returns the thing that an actor is; the zero one for the program itself.
func actorOf(actor string) thing {
	if person, is := eventstore.PersonOf(actor); is {
		return thing{KindPerson, person}
	}
	name, id, named := strings.Cut(actor, ":")
	switch {
	case name == KindOperator && !named: // the configured admin token
		return thing{KindOperator, KindOperator}
	case (name == KindOperator || name == KindKey || name == KindAuditor) && named:
		return thing{name, id}
	}
	return thing{}
}
