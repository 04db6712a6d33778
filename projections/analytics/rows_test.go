package analytics_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/command/catalog"
	"carillon/projections"
	"carillon/projections/analytics"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/feeds"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
)

// keys of the views of rows.
var keys = map[string][]string{
	"events": {"event_id"}, "deliveries": {"delivery_id"}, "attempts": {"delivery_id", "number"},
}

// copied is a copy of a view elsewhere, which takes what changed since.
type copied struct {
	view  string
	since int64
	rows  map[string]string // by their keys
	took  map[string]int
}

func newCopy(view string) *copied {
	return &copied{view: view, rows: map[string]string{}, took: map[string]int{}}
}

// take asks what changed since, as the documentation does.
func (c *copied) take(t *testing.T, log *projecttest.Log) {
	t.Helper()
	sql := fmt.Sprintf(`SELECT concat_ws(' ', %s), changed_sequence, to_jsonb(v)::text FROM analytics.%s v
		WHERE changed_sequence > $1 ORDER BY changed_sequence`, strings.Join(keys[c.view], ", "), c.view)
	found, err := log.Database.Query(t.Context(), sql, c.since)
	if err != nil {
		t.Fatal(err)
	}
	var key, row string
	var sequence int64
	_, err = pgx.ForEachRow(found, []any{&key, &sequence, &row}, func() error {
		c.rows[key], c.since = row, max(c.since, sequence)
		c.took[fmt.Sprint(key, " ", sequence)]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check compares the copy with the view.
func (c *copied) check(t *testing.T, log *projecttest.Log) {
	t.Helper()
	c.take(t, log)
	for key, times := range c.took {
		if times > 1 {
			t.Errorf("%s: %s came %d times", c.view, key, times)
		}
	}
	whole := newCopy(c.view)
	whole.take(t, log)
	if len(whole.rows) != len(c.rows) {
		t.Errorf("%s: %d rows were copied of %d", c.view, len(c.rows), len(whole.rows))
	}
	for key, row := range whole.rows {
		if c.rows[key] != row {
			t.Errorf("%s: the copy has\n%s instead of\n%s", c.view, c.rows[key], row)
		}
	}
}

// Changes are found by one query: between batches, and over a rebuild from the log, which batches the events otherwise,
// no change is lost, and none comes twice.
func TestChangesSince(t *testing.T) {
	t.Parallel()
	models := []projections.ReadModel{publications.ReadModel, deliveries.ReadModel, organizations.ReadModel,
		destinations.ReadModel, feeds.ReadModel}
	log := projecttest.New(t, models...)
	for seed := range uint64(10) {
		log.Clear()
		ensure(t, log.Database)
		copies := []*copied{}
		for _, view := range slices.Sorted(maps.Keys(keys)) {
			copies = append(copies, newCopy(view))
		}
		choose := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a choice, no secret
		made := []*delivered{publish(log)}
		for range 40 {
			switch choose.IntN(12) {
			case 0:
				made = append(made, publish(log))
			case 1, 2, 3, 4:
				made[choose.IntN(len(made))].attempt()
			case 5:
				for _, m := range models {
					log.ProjectInBatches(m, 1+choose.IntN(5)) // from nothing, as a rebuild does
				}
				ensure(t, log.Database)
			case 6, 7:
				log.Project()
			default:
				copies[choose.IntN(len(copies))].take(t, log)
			}
		}
		log.Project()
		for _, c := range copies {
			c.check(t, log)
		}
	}
}

// delivered is a delivery that a test attempts.
type delivered struct {
	record func(...delivery.Event)
	number int
}

// publish records an event and its delivery.
func publish(log *projecttest.Log) *delivered {
	id := uuid.New()
	projecttest.Stream(log, publication.Aggregate, id, noon)(publication.Published{
		Type:         "news.item.added",
		Organization: org,
		Source:       "/news",
		Time:         noon,
		Data:         []byte("{}"),
	})
	projecttest.Stream(log, dispatch.Aggregate, id, noon)(dispatch.DeliveriesScheduled{
		Publication: id,
		At:          noon,
		Event:       dispatch.Summary{Type: "news.item.added", Source: "/news", Time: noon},
		Deliveries:  []dispatch.Scheduled{{Destination: dest, Organization: org}},
	})
	return &delivered{record: projecttest.Stream(log, delivery.Aggregate, dispatch.DeliveryID(id, dest), noon)}
}

// attempt records a failed attempt.
func (d *delivered) attempt() {
	d.number++
	d.record(delivery.Attempted{
		Organization: org,
		Destination:  dest,
		Number:       d.number,
		Trigger:      delivery.Automatic,
		Outcome:      delivery.Outcome{FailureReason: "timeout", DurationMicros: 7},
		Status:       delivery.StatusPending,
		At:           noon.Add(time.Minute),
	})
}

// A filter by day reaches the rows by an index, in each view of rows.
func TestDaysGoByIndex(t *testing.T) {
	t.Parallel()
	pool := made(t)
	for view, column := range map[string]string{
		"events": "published_at", "deliveries": "created_at", "attempts": "delivery_created_at",
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), "EXPLAIN SELECT * FROM analytics."+view+" WHERE "+column+
				" >= '2026-11-21' AND "+column+" < '2026-11-22'")
			if err != nil {
				return err
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "Index Cond: ((published_at >=") &&
				!strings.Contains(plan, "Index Cond: ((created_at >=") {
				t.Errorf("%s:\n%s", view, plan)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The sequence of an event is that of webhooks: the microseconds of its recording.
func TestSequenceOfEvents(t *testing.T) {
	t.Parallel()
	pool := made(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO publications.publications (id, type, source, time, published_at, data)
		VALUES ($1, 'a', '/', now(), '2026-11-29T11:55:50.800858Z', '{}')`, uuid.New()); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 29, 11, 55, 50, 800_858_000, time.UTC)
	want := fmt.Sprintf(`{"sequence": "%020d"}`, at.UnixMicro())
	if got := rows(t, pool, "SELECT sequence FROM analytics.events"); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %s", got, want)
	}
}

// Notices are those of the catalog.
func TestNoticesAreMarked(t *testing.T) {
	t.Parallel()
	var declared []string
	for _, n := range catalog.Notices {
		declared = append(declared, n.Type)
	}
	if !slices.Equal(declared, analytics.NoticeTypes) {
		t.Errorf("%q, want %q", analytics.NoticeTypes, declared)
	}
}
