package analytics_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/command/catalog"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/analytics"
	"carillon/projections/projecttest"
)

// keys of the views of rows, and the columns whose changes don't count: those of other things, and of the clock.
var keys = map[string]struct {
	key    []string
	except string
}{
	"events":     {[]string{"event_id"}, "feed_name"},
	"deliveries": {[]string{"delivery_id"}, "destination_name"},
	"attempts":   {[]string{"delivery_id", "number"}, "destination_name"},
	"items":      {[]string{"item_id"}, "feed_name source_type next_starts_at"},
	"feeds":      {[]string{"feed_id"}, "items upcoming last_added_at"},
	"sources":    {[]string{"source_id"}, "on_show gone retired items last_added_at"},
	"destinations": {[]string{"destination_id"}, "consecutive_failures streak_started_at last_success_at " +
		"last_failure_at pending waiting retrying delivering succeeded failed organization_name"},
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
	of := keys[c.view]
	sql := fmt.Sprintf(`SELECT concat_ws(' ', %s), changed_sequence, (to_jsonb(v) - string_to_array('%s', ' '))::text
		FROM analytics.%s v WHERE changed_sequence > $1 ORDER BY changed_sequence`,
		strings.Join(of.key, ", "), of.except, c.view)
	found := must.Get(log.Database.Query(t.Context(), sql, c.since))(t)
	var key, row string
	var sequence int64
	must.Get(pgx.ForEachRow(found, []any{&key, &sequence, &row}, func() error {
		c.rows[key], c.since = row, max(c.since, sequence)
		c.took[fmt.Sprint(key, " ", sequence)]++
		return nil
	}))(t)
}

// check compares the copy with the view.
func (c *copied) check(t *testing.T, log *projecttest.Log) {
	t.Helper()
	c.take(t, log)
	for key, times := range c.took {
		assert.True(t, times <= 1, "%s: %s came %d times", c.view, key, times)
	}
	whole := newCopy(c.view)
	whole.take(t, log)
	assert.True(t, len(whole.rows) == len(c.rows), "%s: %d rows were copied of %d", c.view, len(c.rows), len(whole.rows))
	for key, row := range whole.rows {
		assert.Equal(t, c.rows[key], row, "%s: the copy has … instead of", c.view)
	}
}

// Changes are found by one query: between batches, and over a rebuild from the log, which batches the events otherwise,
// no change is lost, and none comes twice.
func TestChangesSince(t *testing.T) {
	t.Parallel()
	models := readModels()
	log := projecttest.New(t, models...)
	for seed := range uint64(3) {
		log.Clear()
		ensure(t, log.Database)
		copies := []*copied{}
		for _, view := range slices.Sorted(maps.Keys(keys)) {
			copies = append(copies, newCopy(view))
		}
		choose := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a choice, no secret
		made := []*delivered{publish(log)}
		things := newThings(log)
		for range 40 {
			switch choose.IntN(16) {
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
			case 8, 9, 10:
				things.change(choose)
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

// things are a destination, a feed with two sources, and an item of a happening that both show.
type things struct {
	number      int
	destination func(...destination.Event)
	feed        func(...feed.Event)
	source      func(...source.Event)
	happening   func(...happening.Event)
	detached    bool
}

var second = uuid.NewSHA1(page, []byte("second"))

func newThings(log *projecttest.Log) *things {
	id := uuid.NewSHA1(page, []byte("shown by two"))
	it := &things{
		destination: projecttest.Stream(log, destination.Aggregate, dest, noon),
		feed:        projecttest.Stream(log, feed.Aggregate, feedA, noon),
		source:      projecttest.Stream(log, source.Aggregate, page, noon),
		happening:   projecttest.Stream(log, happening.Aggregate, id, noon),
	}
	it.destination(destination.Created{Organization: org, Settings: destination.Settings{Name: "CRM"}, At: noon})
	it.feed(feed.Created{Organization: org, Settings: feed.Settings{Name: "Concerts"}, At: noon})
	it.source(source.Registered{Type: source.TypeSite, URL: "https://one.example", At: noon})
	it.attach(page)
	it.attach(second)
	it.observe(page)
	it.observe(second)
	projecttest.Stream(log, item.Aggregate, item.ID(feedA, id), noon)(item.Added{
		FeedID:      feedA,
		HappeningID: id,
		SourceID:    page,
		At:          noon,
	})
	return it
}

func (s *things) attach(id uuid.UUID) {
	s.feed(feed.SourceAttached{AssociationID: id, SourceID: id, At: noon})
}

func (s *things) observe(from uuid.UUID) {
	s.happening(happening.Observed{
		SourceID: from,
		Key:      "k",
		Details:  happening.Details{Title: fmt.Sprint("Title ", s.number)},
		At:       noon,
	})
}

// change records an event of one of them.
func (s *things) change(choose *rand.Rand) {
	s.number++
	name := fmt.Sprint("Name ", s.number)
	switch choose.IntN(8) {
	case 0:
		s.destination(destination.Revised{Settings: destination.Settings{Name: name}, At: noon})
	case 1:
		s.destination(destination.AutoDisabled{Reason: name, At: noon})
	case 2:
		s.feed(feed.Revised{Settings: feed.Settings{Name: name}, At: noon})
	case 3:
		s.source(source.CollectionCompleted{Number: s.number, At: noon.Add(time.Duration(s.number))})
	case 4:
		s.source(source.CollectionStarted{Number: s.number, At: noon})
	case 5:
		s.observe(second)
	case 6:
		s.happening(happening.WentStale{SourceID: second, At: noon.Add(time.Duration(s.number) * time.Second)})
	case 7:
		if s.detached = !s.detached; s.detached {
			s.feed(feed.SourceDetached{AssociationID: page, SourceID: page, At: noon})
		} else {
			s.attach(page)
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

// A filter by day reaches the rows by an index, in each view of rows and each view that counts attempts.
func TestDaysGoByIndex(t *testing.T) {
	t.Parallel()
	pool := made(t)
	byIndex := regexp.MustCompile(`Index Cond: \(+(published_at|created_at)[ )]`)
	for view, filter := range map[string]string{
		"events":              "published_at BETWEEN '2026-11-21' AND '2026-11-22'",
		"deliveries":          "created_at BETWEEN '2026-11-21' AND '2026-11-22'",
		"attempts":            "delivery_created_at BETWEEN '2026-11-21' AND '2026-11-22'",
		"destination_days":    "day = '2026-11-21'",
		"failures_by_reason":  "day = '2026-11-21'",
		"latency_percentiles": "day = '2026-11-21'",
		"success_rates":       "last_days = 1",
	} {
		must.OK(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), "EXPLAIN SELECT * FROM analytics."+view+" WHERE "+filter)
			if err != nil {
				return err
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			plan := strings.Join(lines, "\n")
			assert.True(t, byIndex.MatchString(plan), "%s:\n%s", view, plan)
			return err
		}))
	}
}

// The sequence of an event is that of webhooks: the microseconds of its recording. A notice is no event.
func TestSequenceOfEvents(t *testing.T) {
	t.Parallel()
	pool := made(t)
	must.Get(pool.Exec(t.Context(), `INSERT INTO publications.publications (id, type, source, time, published_at, data)
		SELECT gen_random_uuid(), type, '/', now(), '2026-11-29T11:55:50.800858Z', '{}'
		FROM unnest('{news.item.added,destination.failing}'::text[]) type`))(t)
	at := time.Date(2026, 11, 29, 11, 55, 50, 800_858_000, time.UTC)
	want := fmt.Sprintf(`{"sequence": "%020d"}`, at.UnixMicro())
	got := rows(t, pool, "SELECT sequence FROM analytics.events")
	assert.True(t, len(got) == 1 && got[0] == want, "%q, want %s", got, want)
}

// Notices are those of the catalog.
func TestNoticesAreMarked(t *testing.T) {
	t.Parallel()
	var declared []string
	for _, n := range catalog.Notices {
		declared = append(declared, n.Type)
	}
	assert.True(t, slices.Equal(declared, analytics.NoticeTypes), "%q, want %q", analytics.NoticeTypes, declared)
}

// The counts of a deleted destination stay, with its last name; its deliveries are shown no more.
func TestDeletedDestinationCounts(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, readModels()...)
	ensure(t, log.Database)
	record(log)
	projecttest.Stream(log, destination.Aggregate, dest, noon)(destination.Deleted{At: noon})
	log.Project()
	for view, want := range map[string]string{
		"deliveries_by_day": `"deliveries": 4, "succeeded": 2, "failed": 1, "discarded": 1, "pending": 0`,
		"destination_days":  `"deliveries": 4, "succeeded": 2, "failed": 1, "attempts": 3`,
		"success_rates WHERE last_days = 7": `"succeeded": 2, "failed": 1, "success_rate": 0.6667, ` +
			`"attempts": 3`,
		"latency_percentiles": `"attempts": 3, "p50_ms": 20`,
		"failures_by_reason":  `"attempts": 1, "deliveries": 1`,
		"deliveries":          "",
		"attempts":            "",
		"destinations":        "",
	} {
		got := strings.Join(rows(t, log.Database, "SELECT * FROM analytics."+view), "\n")
		if want == "" && got == "" {
			continue
		}
		want += `, "destination_name": "CRM", "destination_external_id": "crm", "organization_name": "Town hall", ` +
			`"destination_deleted_at": "` + day + `T12:00:00+00:00"`
		for _, part := range strings.Split(want, ", ") {
			assert.True(t, strings.Contains(got, part), "%s: %s, want %s", view, got, part)
		}
	}
}
