package adminapi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/eventstore/instant"
	"carillon/projections/audit"
	"carillon/query"
)

// recordKinds are the kinds in paths, beside organizations and destinations.
var recordKinds = map[string]string{
	"keys": audit.KindKey, "feeds": audit.KindFeed, "sources": audit.KindSource, "operators": audit.KindOperator,
	"auditors": audit.KindAuditor, "people": audit.KindPerson,
	"secrets": audit.KindSecret,
}

// RecordKinds returns the kinds in paths.
func RecordKinds() []string {
	return slices.AppendSeq([]string{"organizations"}, maps.Keys(recordKinds))
}

// RecordPage is a page of the record, newest first.
type RecordPage struct {
	Items []query.RecordEntry `json:"items"`
	Next  *string             `json:"next"` // the cursor of the next page; null: there is none
}

const (
	usualEntries = 50
	mostEntries  = 200
)

// entries answers GET /admin/audit and GET /admin/audit/{kind}/{thing}: a page, or with Accept: application/x-ndjson
// all entries, oldest first.
func (a *API) entries(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	filter, err := recordFilter(r)
	if err != nil {
		wire.Events.WriteError(w, r, err)
		return
	}
	a.awaitRecord(r.Context())
	if filter.Thing, err = a.wholeID(r.Context(), filter); err != nil {
		wire.Events.WriteError(w, r, err)
		return
	}
	if wire.Accepts(r, mediaNDJSON) {
		a.exportRecord(w, r, filter)
		return
	}
	handle(func(r *http.Request) (wire.Reply, error) {
		limit := filter.Limit
		filter.Limit++
		found, err := a.Queries.RecordEntries(r.Context(), filter)
		if err != nil {
			return wire.Reply{}, err
		}
		var page RecordPage
		if len(found) > limit {
			found = found[:limit]
			page.Next = new(CursorText(found[limit-1].Cursor()))
		}
		page.Items = found
		return wire.OK(page), nil
	})(w, r)
}

// wholeID returns the id of the thing of a filter, which may be named by the beginning of its id.
func (a *API) wholeID(ctx context.Context, f query.EntryFilter) (string, error) {
	if !slices.Contains(namedByID, f.Kind) || f.Thing == "" || len(f.Thing) == len(uuid.Nil.String()) {
		return f.Thing, nil
	}
	found, err := a.Queries.ThingsOnRecord(ctx, f.Kind, f.Thing, f.Organization, mostFound)
	switch {
	case err != nil:
		return "", err
	case len(found) > 1:
		return "", wire.Fail(wire.BadParam, "thing", "is ambiguous: %s", strings.Join(found, ", "))
	case len(found) == 1:
		return found[0], nil
	}
	return f.Thing, nil
}

// namedByID are the kinds whose things may be named by the beginning of their ids.
var namedByID = []string{audit.KindFeed, audit.KindSource, audit.KindSecret}

func recordFilter(r *http.Request) (query.EntryFilter, error) {
	q := wire.Events.ParseQuery(r, "kind", "thing", "organization", "actor", "since", "until", "cursor", "limit")
	filter := query.EntryFilter{
		Kind:         q.OneOf("kind", audit.Kinds()...),
		Thing:        q.Text("thing"),
		Organization: q.UUID("organization"),
		Actor:        q.Text("actor"),
		Since:        q.DateOrTime("since"),
		Until:        q.DateOrTime("until"),
		Limit:        q.Int("limit", usualEntries, 1, mostEntries),
	}
	if text := q.Text("cursor"); text != "" {
		cursor, err := ParseCursor(text)
		if err != nil {
			q.Fail("cursor", "must be the next of the page before")
		}
		filter.After = &cursor
	}
	kind := chi.URLParam(r, "kind")
	if kind != "" && kind != "organizations" && q.Has("kind") {
		q.Fail("kind", "has no effect beside a kind in the path, except organizations: leave it out")
	}
	if filter.Thing != "" && (filter.Kind == "" || kind != "") {
		q.Fail("thing", "needs its kind, and has no effect beside a thing in the path")
	}
	if err := q.Err(); err != nil {
		return filter, err
	}
	switch known := recordKinds[kind]; {
	case kind == "":
	case kind == "organizations": // all that belongs to it
		id, err := wire.PathUUID(r, "thing", wire.BadParam)
		if err != nil {
			return filter, err
		}
		if filter.Organization != uuid.Nil && filter.Organization != id {
			return filter, wire.Fail(wire.BadQuery, "organization", "is another one than in the path: leave it out")
		}
		filter.Organization = id
	case known == "":
		return filter, &wire.Failure{Kind: wire.NotFound, Issue: "there is a record of organizations, keys, destinations, " +
			"feeds, sources, operators, auditors, people and secrets"}
	default:
		filter.Kind = known
		var err error
		if filter.Thing, err = wire.PathText(r, "thing"); err != nil {
			return filter, err
		}
	}
	if bound := PrincipalOf(r).Organization; bound != uuid.Nil {
		if filter.Organization != uuid.Nil && filter.Organization != bound {
			filter.Until = time.Unix(0, 0) // another organization's record is empty
		}
		filter.Organization = bound
	}
	return filter, nil
}

func (a *API) exportRecord(w http.ResponseWriter, r *http.Request, filter query.EntryFilter) {
	ExportHeaders(w, "audit")
	if err := a.Queries.EachRecordEntry(r.Context(), filter, RecordLines(w)); err != nil {
		a.Log.WarnContext(r.Context(), "audit export broke off", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// ExportHeaders begins an answer of lines that browsers save as a file.
func ExportHeaders(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", mediaNDJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.ndjson"`)
}

// RecordLines returns a function that writes an entry of the record as a line.
func RecordLines(w io.Writer) func(query.RecordEntry) error {
	return func(e query.RecordEntry) error { return writeLine(w, e) }
}

// AuditLines returns a function that writes a change of a destination as a line.
func AuditLines(w io.Writer) func(query.AuditEntry) error {
	return func(e query.AuditEntry) error { return writeLine(w, e) }
}

func writeLine(w io.Writer, entry any) error {
	line, err := json.Marshal(entry, instant.JSON)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// CursorText returns a cursor as callers send it back.
func CursorText(c query.RecordCursor) string {
	return fmt.Sprintf("%d-%d-%d", c.Commit, c.Prepare, c.Revision)
}

// ParseCursor reads a cursor.
func ParseCursor(text string) (c query.RecordCursor, err error) {
	if _, err = fmt.Sscanf(text, "%d-%d-%d", &c.Commit, &c.Prepare, &c.Revision); err == nil && CursorText(c) != text {
		err = fmt.Errorf("not a cursor: %q", text)
	}
	return c, err
}

// recordTail remembers how far the log was searched for events of the record. The newest event of all is seldom one of
// them, and the read model reports no position after its last one.
type recordTail struct {
	mu   sync.Mutex
	last search
}

// search is a search of the log for events of the record.
type search struct {
	to     eventstore.Position
	newest eventstore.Position // of the record, up to there
}

// advance remembers a search, and returns the one that went furthest. Nothing is searched meanwhile, so that a request
// whose store hangs holds up no other.
func (t *recordTail) advance(s search) search {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.to.Before(s.to) {
		t.last = s
	}
	return t.last
}

// awaitRecord waits until the read model has all events so far: an auditor sees all changes, whichever node or process
// manager made them. If the event store does not answer, the present rows are shown.
func (a *API) awaitRecord(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wire.AwaitLimit)
	defer cancel()
	newest, err := a.newestOnRecord(ctx)
	if err != nil {
		wire.Note(ctx, slog.Bool("notCompared", true))
	}
	if newest != eventstore.Start {
		a.See(ctx, newest, audit.ReadModel.Name)
	}
}

// newestOnRecord returns the position of the newest event that belongs to the record.
func (a *API) newestOnRecord(ctx context.Context) (eventstore.Position, error) {
	latest, err := a.Queries.RecordEntries(ctx, query.EntryFilter{Limit: 1})
	s := a.recordTail.advance(search{})
	if err != nil {
		return s.newest, err
	}
	for _, e := range latest {
		//nolint:gosec // stored from positions
		known := eventstore.Position{Commit: uint64(e.Commit), Prepare: uint64(e.Prepare)}
		s = a.recordTail.advance(search{known, known})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for message, err := range a.Commands.Store.Subscribe(ctx, s.to, audit.ReadModel.Filter) {
		switch {
		case err != nil:
			return s.newest, err
		case message.CaughtUp:
			return a.recordTail.advance(s).newest, nil
		case message.Event != nil:
			s.newest = message.Position
		}
		s.to = message.Position
	}
	return s.newest, ctx.Err()
}
