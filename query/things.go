package query

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// RecordEntry is one change of anything that people change.
type RecordEntry struct {
	Kind         string     `json:"kind"`         // of the thing that was changed: see audit.Kinds
	Thing        string     `json:"thing"`        // its id or name
	Name         *string    `json:"name"`         // its last name on record; nil if it has none
	Organization *uuid.UUID `json:"organization"` // nil if it belongs to none
	Stream       string     `json:"stream"`
	Revision     int64      `json:"revision"` // of the stream, from 0
	Change
	Detail jsontext.Value `json:"detail"` // the event without its secrets
}

// RecordCursor is a place in the record: after an entry.
type RecordCursor struct{ Commit, Prepare, Revision int64 }

// Cursor returns the place after an entry.
func (e RecordEntry) Cursor() RecordCursor { return RecordCursor{e.Commit, e.Prepare, e.Revision} }

// EntryFilter selects entries of the record. Zero fields don't restrict.
type EntryFilter struct {
	Kind         string    // with Thing: the thing that entries are about; alone: the kind of what was changed
	Kinds        []string  // of what was changed
	Thing        string    // Optional. Needs Kind
	Organization uuid.UUID // whose entries
	Actor        string
	Since        time.Time // both ends included
	Until        time.Time
	After        *RecordCursor // nil means from the start
	Forward      bool          // oldest first; default: newest first
	Limit        int
}

// RecordEntries returns a page of the record.
func (q *Queries) RecordEntries(ctx context.Context, f EntryFilter) ([]RecordEntry, error) {
	args := arguments{}
	where := "true"
	if f.Thing == "" {
		where = "main"
	}
	if f.Kind != "" {
		where += " AND kind = " + args.add(f.Kind)
	}
	if len(f.Kinds) > 0 {
		where += " AND kind = ANY(" + args.add(f.Kinds) + ")"
	}
	if f.Thing != "" {
		where += " AND thing = " + args.add(f.Thing)
	}
	if f.Organization != uuid.Nil {
		where += " AND organization = " + args.add(f.Organization)
	}
	if f.Actor != "" {
		actor := args.add(f.Actor)
		where += " AND (actor = " + actor + " OR starts_with(actor, " + actor + " || ' (by '))" // see eventstore.MadeBy
	}
	if !f.Since.IsZero() {
		where += " AND at >= " + args.add(f.Since)
	}
	if !f.Until.IsZero() {
		where += " AND at <= " + args.add(f.Until)
	}
	than, order := "<", " DESC"
	if f.Forward {
		than, order = ">", ""
	}
	if f.After != nil {
		where += fmt.Sprintf(" AND (commit_position, prepare_position, revision) %s (%s, %s, %s)", than,
			args.add(f.After.Commit), args.add(f.After.Prepare), args.add(f.After.Revision))
	}
	by := " ORDER BY commit_position" + order + ", prepare_position" + order + ", revision" + order
	return many(ctx, q.Pool, "record", func(row pgx.CollectableRow) (e RecordEntry, err error) {
		e.Detail, err = e.scan(row, &e.Kind, &e.Thing, &e.Name, &e.Stream, &e.Revision, &e.Organization)
		return e, err
	}, `
		SELECT coalesce(changed.kind, page.kind), coalesce(changed.thing, page.thing), named.name, stream, revision,
			organization, `+changeColumns+`, detail
		FROM (SELECT * FROM audit.record WHERE `+where+by+" LIMIT "+args.add(f.Limit)+`) AS page
		LEFT JOIN LATERAL (SELECT kind, thing FROM audit.record AS r
			WHERE r.main AND r.stream = page.stream AND r.revision = page.revision) AS changed ON true
		LEFT JOIN LATERAL (SELECT detail->>'name' AS name FROM audit.record AS r
			WHERE r.main AND r.detail ? 'name' AND r.stream = CASE WHEN changed.kind IN ('key', 'auditor') THEN page.stream
				ELSE changed.kind || '-' || changed.thing END
				AND r.kind = changed.kind AND r.thing = changed.thing
			ORDER BY r.revision DESC LIMIT 1) AS named ON true`+by, args...)
}

// EachRecordEntry calls each for all entries, oldest first, as inPages does.
func (q *Queries) EachRecordEntry(ctx context.Context, f EntryFilter, each func(RecordEntry) error) error {
	f.Forward, f.Limit = true, historyPage
	return inPages(func(after RecordEntry) ([]RecordEntry, error) {
		if after.Stream != "" {
			last := after.Cursor()
			f.After = &last
		}
		return q.RecordEntries(ctx, f)
	}, each)
}
