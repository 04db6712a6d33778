package adapters_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/adapters"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/projecttest"
	"carillon/query"
)

func (w *walks) source(t *testing.T, url string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	projecttest.Stream(w.log, source.Aggregate, id, time.Now())(
		source.Registered{
			Type: source.TypeSite,
			URL:  url,
			At:   time.Now().UTC(),
		}, source.CollectionRequested{At: time.Now().UTC()})
	w.log.Project()
	return id
}

func (w *walks) take(t *testing.T, want int) []visiting.Turn {
	t.Helper()
	turns, err := w.Take(t.Context(), 10, nil)
	must.True(t, err == nil && len(turns) == want, "turns: %+v, %v; want %d", turns, err, want)
	return turns
}

// A source is known while its last walk is not overdue: as it is recorded, or as its memory has it. A paused one stays
// known.
func TestSourceIsKnown(t *testing.T) {
	t.Parallel()
	for steps, want := range map[string]bool{
		"":                            false,
		"paused":                      false,
		"recorded":                    true,
		"recorded overdue":            false,
		"recorded overdue paused":     true,
		"remembered":                  true,
		"remembered overdue":          false,
		"remembered overdue paused":   true,
		"recorded overdue remembered": true,
		"remembered overdue recorded": true,
		"recorded remembered overdue": false,
	} {
		t.Run(steps, func(t *testing.T) {
			t.Parallel()
			w := openWalks(t)
			id := w.source(t, "https://example.org/")
			for _, step := range strings.Fields(steps) {
				switch step {
				case "recorded":
					w.Source(t, id, source.CollectionCompleted{Number: 1, IntervalSeconds: 3600, At: time.Now().UTC()})
				case "remembered":
					walk := w.Walk(w.take(t, 1)[0])
					must.OK(t, errors.Join(walk.Begin(t.Context(), nil), walk.Leave(t.Context(), visiting.Next{
						Over:      true,
						Completed: true,
						Interval:  time.Hour,
						In:        time.Hour,
					})))
				case "overdue":
					const late = " SET completed_at = completed_at - interval '1.1 hours 2 minutes'"
					w.exec(t, "UPDATE sources.sources"+late)
					w.exec(t, "UPDATE carillon.source_walks"+late)
				case "paused":
					w.Source(t, id, source.Paused{Reason: "the owner objects", At: time.Now().UTC()})
				}
			}
			got, err := (&query.Queries{Pool: w.pool}).SourceIsKnown(t.Context(), id)
			assert.True(t, err == nil && got == want, "it is known: %t, %v", got, err)
		})
	}
}

// Operators see for how long sources wait for their visit, and at how many hosts.
func TestSourcesThatWait(t *testing.T) {
	t.Parallel()
	w := openWalks(t)
	queries := &query.Queries{Pool: w.pool}
	expect := func(when string, hosts int, atLeast time.Duration) {
		t.Helper()
		got, err := queries.WaitingSources(t.Context())
		assert.True(t, err == nil && got.Hosts == hosts && got.Longest >= atLeast && (hosts == 0) == (got.Longest == 0),
			"%s: %+v, %v, want %d hosts and at least %s", when, got, err, hosts, atLeast)
	}
	expect("without sources", 0, 0)
	first := w.source(t, "https://example.org/1")
	w.source(t, "https://example.org/2")
	w.source(t, "https://example.net/")
	w.exec(t, "UPDATE sources.sources SET wanted_at = wanted_at - interval '1 hour' WHERE id = $1", first)
	expect("before a look", 2, time.Hour)
	turns := w.take(t, 2)
	expect("while two are visited", 1, 0)
	visit := func(turn visiting.Turn, next visiting.Next) {
		t.Helper()
		walk := w.Walk(turn)
		must.OK(t, walk.Begin(t.Context(), []collect.Link{{Address: "a"}}))
		must.OK(t, walk.Leave(t.Context(), next))
	}
	for _, turn := range turns {
		visit(turn, visiting.Next{Over: true, In: time.Hour})
	}
	second := w.take(t, 1)[0]
	expect("while the last is visited", 0, 0)
	visit(second, visiting.Next{In: -time.Minute})
	expect("after one continues", 1, time.Minute)
	projecttest.Stream(w.log, source.Aggregate, second.Source.ID, time.Now())(source.Paused{
		Reason: "the owner objects",
		At:     time.Now().UTC(),
	})
	w.log.Project()
	expect("once it is paused", 0, 0)
}

// Plans by a clock that was a day ahead are corrected: a source is visited after its interval, a turn ends after a
// turn, and a host is asked at its pace.
func TestTurnsOfClockAheadAreBroughtBack(t *testing.T) {
	t.Parallel()
	w := openWalks(t)
	id := w.source(t, "https://example.org/")
	walk := w.Walk(w.take(t, 1)[0])
	must.OK(t, walk.Begin(t.Context(), []collect.Link{{Address: "a"}}))
	must.OK(t, walk.Leave(t.Context(), visiting.Next{}))
	const ahead = `UPDATE carillon.source_walks
		SET attempted_at = attempted_at + interval '1 day', next_at = next_at + interval '1 day' WHERE source_id = $1`
	w.exec(t, ahead, id)
	w.take(t, 0)
	restarted := &walks{Walks: adapters.NewWalks(w.pool)} // looks at all at once
	for {                                                 // as long after the look as the visit took
		turns := must.Get(restarted.Take(t.Context(), 10, nil))(t)
		if len(turns) == 1 {
			break
		}
	}
	w.exec(t, "UPDATE carillon.source_walks SET held_until = held_until + interval '1 day' WHERE source_id = $1", id)
	restarted = &walks{Walks: adapters.NewWalks(w.pool)}
	restarted.take(t, 0)
	var soon bool
	const ends = "SELECT held_until <= clock_timestamp() + interval '1 minute' FROM carillon.source_walks " +
		"WHERE source_id = $1"
	if err := w.pool.QueryRow(t.Context(), ends, id).Scan(&soon); err != nil || !soon {
		t.Errorf("the turn is not brought back: %v", err)
	}
	hosts := adapters.Hosts{Pool: w.pool}
	turn := func(want bool) {
		t.Helper()
		wait, _, err := hosts.Take(t.Context(), "example.org", time.Minute)
		assert.True(t, err == nil && (wait == 0) == want, "a turn at the host: wait %s, %v, want %v", wait, err, want)
	}
	turn(true)
	turn(false)
	w.exec(t, "UPDATE carillon.hosts SET next_at = next_at + interval '1 day'")
	turn(true)
	turn(false)
}
