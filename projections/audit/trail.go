package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/query"
)

// Trail holds the rows that the read model has of some events, for readers without a database.
type Trail struct {
	Entries     []query.AuditEntry // changes of destinations
	Disclosures []query.AuditEntry
	Record      []query.RecordEntry // an entry of each event, also of those that are not on record
}

// TrailOf decodes events, those of a stream in their order.
func TrailOf(events []*eventstore.Recorded) (*Trail, error) {
	var t Trail
	known := map[string]owner{}
	for _, recorded := range events {
		var d decoded
		var err error
		if slices.Contains(categories, recorded.Category()) && !slices.Contains(walks, recorded.Type) {
			err = d.add(recorded, known)
		} else {
			err = d.other(recorded)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range d.record {
			if e.main {
				t.Record = append(t.Record, e.recordEntry())
			}
		}
		for list, from := range map[*[]query.AuditEntry][]entry{&t.Entries: d.entries, &t.Disclosures: d.disclosures} {
			for i := range from {
				e, err := from[i].auditEntry()
				if err != nil {
					return nil, err
				}
				*list = append(*list, e)
			}
		}
	}
	t.name()
	return &t, nil
}

// name sets the last names of the things of all entries.
func (t *Trail) name() {
	names := map[thing]*string{}
	for _, e := range t.Record {
		var detail struct {
			Name *string `json:"name"`
		}
		if json.Unmarshal(e.Detail, &detail) == nil && detail.Name != nil {
			names[thing{e.Kind, e.Thing}] = detail.Name
		}
	}
	for i := range t.Record {
		e := &t.Record[i]
		e.Name = names[thing{e.Kind, e.Thing}]
	}
}

// other adds an event that is not on record.
func (d *decoded) other(recorded *eventstore.Recorded) error {
	meta, err := eventstore.ParseMetadata(recorded.Metadata)
	var event stored
	var detail map[string]any
	for _, into := range []any{&event, &detail} {
		if err == nil {
			err = json.Unmarshal(recorded.Data, into)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s@%d: %w", eventstore.ErrUndecodable, recorded.Stream, recorded.Revision, err)
	}
	for _, name := range hidden {
		delete(detail, name)
	}
	if event.At.IsZero() {
		event.At = recorded.Created
	}
	e, err := newEntry(recorded, meta, uuid.Nil, event.At, detail)
	of := thing{recorded.Category(), recorded.StreamID().String()}
	d.record = append(d.record, thingEntry{entry: e, thing: of, main: true})
	return err
}

func (e *entry) auditEntry() (query.AuditEntry, error) {
	shown := query.AuditEntry{
		Destination:  e.destination,
		Organization: optional(e.Organization),
		Revision:     int64(e.Revision),
		Change:       e.change(),
	}
	return shown, json.Unmarshal([]byte(e.detail), &shown.Detail)
}

// change returns the event without its position, which an export does not have.
func (e *entry) change() query.Change {
	return query.Change{
		Type:          e.Type,
		At:            e.at.UTC(),
		RecordedAt:    e.Created.UTC(),
		EventID:       e.ID,
		Actor:         e.Actor,
		Reason:        optional(e.Reason),
		CorrelationID: optional(e.CorrelationID),
		CausationID:   optional(e.CausationID),
	}
}

func (e *thingEntry) recordEntry() query.RecordEntry {
	return query.RecordEntry{
		Kind:         e.kind,
		Thing:        e.id,
		Organization: optional(e.Organization),
		Stream:       e.Stream,
		Revision:     int64(e.Revision),
		Change:       e.change(),
		Detail:       jsontext.Value(e.detail),
	}
}

// optional returns nil for a zero value.
func optional[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// Changes describes the settings of a destination that differ, a text each.
func Changes(before, after query.AuditDetail) []string {
	var parts []string
	then, now := settingsOf(before), settingsOf(after)
	for _, d := range destination.Fields {
		text := d.Text(now)
		switch {
		case text == d.Text(then):
			continue
		case text == "":
			text = "none"
		case d.Field.Has(destination.FieldName | destination.FieldExternalID):
			text = strconv.Quote(text)
		}
		parts = append(parts, d.Label+": "+text)
	}
	if headers := headerChanges(before, after); headers != "" {
		parts = append(parts, "headers: "+headers)
	} else if len(parts) == 0 {
		parts = append(parts, "headers: changed") // their names were not recorded
	}
	return parts
}

// headerChanges names the headers that were added, removed and changed. It is empty if none was, or if that is not
// known.
func headerChanges(before, after query.AuditDetail) string {
	if !after.HasHeaders && before.HasHeaders && len(before.Headers) == 0 {
		return "none"
	}
	if before.HasHeaders && len(before.Headers) == 0 || after.HasHeaders && len(after.Headers) == 0 {
		if before.HasHeaders != after.HasHeaders {
			return "changed"
		}
		return ""
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(after.Headers)) {
		switch digest, known := before.Headers[name]; {
		case !known:
			changes = append(changes, name+" added")
		case digest != after.Headers[name]:
			changes = append(changes, name+" changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Headers)) {
		if _, stays := after.Headers[name]; !stays {
			changes = append(changes, name+" removed")
		}
	}
	return strings.Join(changes, ", ")
}
