// Package projecttest feeds read models in tests: recorded events in a global order, in batches, each in a transaction
// on a connection such as the runner's. To test the path of events through the store, use the store.
package projecttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/pgtest"
)

// Log is a history and the read models that are made of it.
type Log struct {
	Database *pgxpool.Pool

	t        testing.TB
	readers  []reader
	events   []eventstore.Recorded
	pending  int // events from here on are not projected
	revision map[string]eventstore.Revision
}

type reader struct {
	model projections.ReadModel
	conn  *pgx.Conn
}

var templates sync.Map // *pgtest.Template by digest

// Template is a database with the tables of the read models, empty, and all that is no read model.
func Template(models ...projections.ReadModel) *pgtest.Template {
	digest := projections.SchemaDigest(models...)
	made, _ := templates.LoadOrStore(digest, pgtest.NewTemplate(digest,
		func(ctx context.Context, pool *pgxpool.Pool) error { return Prepare(ctx, pool, models...) }))
	return made.(*pgtest.Template)
}

// Prepare makes the tables of the template in an empty database.
func Prepare(ctx context.Context, pool *pgxpool.Pool, models ...projections.ReadModel) error {
	err := projections.Migrate(ctx, pool)
	for _, m := range models {
		err = errors.Join(err, projections.EnsureSchema(ctx, pool, m))
	}
	return err
}

// Pool returns a pool of connections to a new copy of the template.
func Pool(t testing.TB, models ...projections.ReadModel) *pgxpool.Pool {
	t.Helper()
	return Template(models...).Pool(t)
}

// Runner returns a runner of consumers of a store, without a log.
func Runner(t testing.TB, pool *pgxpool.Pool, store eventstore.Store) *projections.Runner {
	t.Helper()
	return &projections.Runner{
		Pool:     pool,
		Locks:    pgtest.Locks(t, pool),
		Store:    store,
		Log:      slog.New(slog.DiscardHandler),
		Progress: projections.NewProgress(pool),
	}
}

// New begins a history in a new database.
func New(t testing.TB, models ...projections.ReadModel) *Log {
	t.Helper()
	return On(t, Pool(t, models...), models...)
}

// On begins a history in a database that has the read models, empty.
func On(t testing.TB, pool *pgxpool.Pool, models ...projections.ReadModel) *Log {
	t.Helper()
	l := &Log{t: t, Database: pool, revision: map[string]eventstore.Revision{}}
	for _, p := range models {
		l.readers = append(l.readers, reader{p, l.connect(p)})
	}
	return l
}

// Clear begins a new history, with empty schemas.
func (l *Log) Clear() {
	l.t.Helper()
	l.events, l.pending, l.revision = nil, 0, map[string]eventstore.Revision{}
	for _, r := range l.readers {
		l.empty(r)
	}
}

func (l *Log) connect(p projections.ReadModel) *pgx.Conn {
	l.t.Helper()
	config := l.Database.Config().ConnConfig.Copy()
	config.RuntimeParams["search_path"] = pgx.Identifier{p.Name}.Sanitize() + ", public"
	conn := must.Get(pgx.ConnectConfig(l.t.Context(), config))(l.t)
	l.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(l.t.Context())) }) // the database goes with the test
	return conn
}

func (l *Log) empty(r reader) {
	l.t.Helper()
	name := pgx.Identifier{r.model.Name}.Sanitize()
	ddl := "DROP SCHEMA IF EXISTS " + name + " CASCADE; CREATE SCHEMA " + name + "; " + r.model.Schema
	if _, err := r.conn.Exec(l.t.Context(), ddl); err != nil {
		l.t.Fatalf("schema %s: %v", r.model.Name, err)
	}
}

// Stream is the stream of an aggregate; the returned function records events there. The store's clock is at.
func Stream[S, E, C any](l *Log, a eventstore.Aggregate[S, E, C], id uuid.UUID, at time.Time) func(events ...E) {
	return func(events ...E) {
		l.t.Helper()
		for _, event := range events {
			name, data, err := a.Codec.Encode(event)
			must.OK(l.t, err)
			l.Append(eventstore.Recorded{
				ID:       uuid.New(),
				Stream:   eventstore.StreamName(a.Category, id),
				Type:     name,
				Data:     data,
				Created:  at,
				Metadata: []byte(`{"actor":"test","schemaVersion":1}`),
			})
		}
	}
}

// Append adds an event unchanged, at the next revision and position.
func (l *Log) Append(event eventstore.Recorded) {
	next, exists := l.revision[event.Stream]
	if exists {
		next++
	}
	l.revision[event.Stream] = next
	position := uint64(len(l.events)) + 1
	event.Revision, event.Position = next, eventstore.Position{Commit: position, Prepare: position}
	l.events = append(l.events, event)
}

// Events are all there are, in order.
func (l *Log) Events() []eventstore.Recorded { return l.events }

// AppendTo appends all events to an event store, in order.
func (l *Log) AppendTo(store eventstore.Store) {
	l.t.Helper()
	for _, e := range l.events {
		must.Get(store.Append(l.t.Context(), e.Stream, e.Revision-1, []eventstore.Proposed{{
			ID:       e.ID,
			Type:     e.Type,
			Data:     e.Data,
			Metadata: e.Metadata,
		}}))(l.t)
	}
}

// Project brings the read models up to date; each gets what is new as one batch.
func (l *Log) Project() {
	l.t.Helper()
	batch := l.events[l.pending:]
	l.pending = len(l.events)
	for _, r := range l.readers {
		if err := project(l.t, r, batch); err != nil {
			l.t.Fatalf("%s: %v", r.model.Name, err)
		}
	}
}

// ProjectInBatches rebuilds a read model from the whole history, cut into batches of the given sizes, which are used in
// turn.
func (l *Log) ProjectInBatches(p projections.ReadModel, sizes ...int) {
	l.t.Helper()
	r := l.reader(p)
	l.empty(r)
	l.inBatches(r, l.events, sizes)
}

// failing is a test, or a check of a property.
type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

// SameInBatches expects that tables get the same rows, whatever the sizes of the batches, as event by event.
func (l *Log) SameInBatches(t failing, p projections.ReadModel, sizes []int, tables ...string) {
	t.Helper()
	l.ProjectInBatches(p, 1)
	want := l.Dump(tables...)
	l.ProjectInBatches(p, sizes...)
	if diff := cmp.Diff(want, l.Dump(tables...)); diff != "" {
		t.Fatalf("in batches of %v (+) it comes out otherwise than one by one (-):\n%s", sizes, diff)
	}
}

// ProjectOn brings a read model up to date in batches of a size.
func (l *Log) ProjectOn(p projections.ReadModel, size int) {
	l.t.Helper()
	l.inBatches(l.reader(p), l.events[l.pending:], []int{size})
}

func (l *Log) reader(p projections.ReadModel) reader {
	return l.readers[slices.IndexFunc(l.readers, func(r reader) bool { return r.model.Name == p.Name })]
}

func (l *Log) inBatches(r reader, rest []eventstore.Recorded, sizes []int) {
	l.t.Helper()
	for i := 0; len(rest) > 0; i++ {
		size := min(sizes[i%len(sizes)], len(rest))
		if err := project(l.t, r, rest[:size]); err != nil {
			l.t.Fatalf("%s: %v", r.model.Name, err)
		}
		rest = rest[size:]
	}
	l.pending = len(l.events)
}

// ProjectError projects one event alone and returns the error; nothing is kept.
func (l *Log) ProjectError(p projections.ReadModel, event eventstore.Recorded) error {
	l.t.Helper()
	return project(l.t, l.reader(p), []eventstore.Recorded{event})
}

func project(t testing.TB, r reader, events []eventstore.Recorded) error {
	var batch []eventstore.Recorded
	for _, event := range events {
		if slices.ContainsFunc(r.model.Filter.Prefixes, func(prefix string) bool {
			return strings.HasPrefix(event.Stream, prefix)
		}) {
			batch = append(batch, event)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return pgx.BeginFunc(t.Context(), r.conn, func(tx pgx.Tx) error { return r.model.Project(t.Context(), tx, batch) })
}

// Placeless returns a dump without the places of events in the log.
func Placeless(dump string) string { return places.ReplaceAllString(dump, "") }

var places = regexp.MustCompile(`, "(changed_)?sequence": \d+`)

// Dump renders the rows of tables ("schema.table") as JSON lines, sorted, to compare two states of a read model.
func (l *Log) Dump(tables ...string) string {
	l.t.Helper()
	var out strings.Builder
	for _, table := range tables {
		lines := l.rows(table)
		slices.Sort(lines)
		out.WriteString("# " + table + "\n" + strings.Join(lines, "\n") + "\n")
	}
	return out.String()
}

// Holds compares the rows of a table, or of a query in parentheses, with JSON objects, whatever the order of either.
// Places in the log are left out.
func (l *Log) Holds(table string, want ...string) {
	l.t.Helper()
	decoded := func(rows []string) (all []map[string]any) {
		for _, row := range rows {
			var value map[string]any
			must.OK(l.t, json.Unmarshal([]byte(row), &value))
			delete(value, "changed_sequence")
			all = append(all, value)
		}
		slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return all
	}
	if diff := cmp.Diff(decoded(want), decoded(l.rows(table))); diff != "" {
		l.t.Errorf("%s (-want +got):\n%s", table, diff)
	}
}

// rows returns the rows of a table as JSON.
func (l *Log) rows(table string) []string {
	l.t.Helper()
	rows := must.Get(l.Database.Query(l.t.Context(), "SELECT to_jsonb(t)::text FROM "+table+" t"))(l.t)
	lines := must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(l.t)
	return lines
}
