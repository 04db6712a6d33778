package adapters_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/source"
	"carillon/cmd/internal/adapters"
	"carillon/command/collect"
	"carillon/command/collect/crawl/frontier/frontiertest"
	"carillon/command/visiting"
	"carillon/projections/projecttest"
	"carillon/projections/sources"
	"carillon/query"
)

// walks is a Postgres with requested sources, and the memory of walks there.
type walks struct {
	*adapters.Walks

	pool *pgxpool.Pool
	log  *projecttest.Log
}

func openWalks(t *testing.T) *walks {
	t.Helper()
	log := projecttest.New(t, sources.ReadModel)
	return &walks{adapters.NewWalks(log.Database), log.Database, log}
}

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

func (w *walks) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *walks) take(t *testing.T, want int) []visiting.Turn {
	t.Helper()
	turns, err := w.Take(t.Context(), 10, nil)
	if err != nil || len(turns) != want {
		t.Fatalf("turns: %+v, %v; want %d", turns, err, want)
	}
	return turns
}

// remembered is the walks through one source.
type remembered struct {
	visiting.Walk

	walks  *walks
	source uuid.UUID
}

func (r *remembered) Begin(t *testing.T, start []collect.Link) {
	t.Helper()
	if r.Walk != nil {
		if err := r.Leave(t.Context(), visiting.Next{Over: true}); err != nil {
			t.Fatal(err)
		}
	}
	turn := r.walks.take(t, 1)[0]
	if !turn.Fresh || turn.Source.ID != r.source {
		t.Fatalf("turn: %+v", turn)
	}
	r.Walk = r.walks.Walk(turn)
	if err := r.Walk.Begin(t.Context(), start); err != nil {
		t.Fatal(err)
	}
}

func (r *remembered) Record(t *testing.T, visited collect.Visited) {
	t.Helper()
	if err := r.Walk.Record(t.Context(), visited, nil, visiting.Tally{}); err != nil {
		t.Fatal(err)
	}
}

func (r *remembered) Age(t *testing.T, d time.Duration) {
	t.Helper()
	r.walks.exec(t, `UPDATE carillon.source_pages SET asked_at = asked_at - $1::interval, read_at = read_at - $1::interval,
		until = until - $1::interval`, d)
}

func TestWalksKeepTheContractOfFrontiers(t *testing.T) {
	t.Parallel()
	frontiertest.Run(t, func(t *testing.T) frontiertest.Subject {
		t.Helper()
		w := openWalks(t)
		return &remembered{walks: w, source: w.source(t, "https://example.org/")}
	})
}

// Of a host's sources one is visited at a time, and who waits longest comes first.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := openWalks(t)
	first, second := w.source(t, "https://example.org/1"), w.source(t, "https://EXAMPLE.org/2")
	other := w.source(t, "https://example.net/")
	turns := w.take(t, 2)
	if turns[0].Source.ID != first || turns[1].Source.ID != other || turns[0].Host != "example.org" {
		t.Errorf("turns: %+v", turns)
	}
	theirs := &walks{adapters.NewWalks(w.pool), w.pool, w.log}
	if got := theirs.take(t, 1); got[0].Source.ID != second { // another process may visit the host: the pace is shared
		t.Errorf("turn: %+v", got)
	}
	w.take(t, 0)
	if busy, err := w.Take(t.Context(), 10, []string{"example.org"}); err != nil || len(busy) != 0 {
		t.Errorf("turns at busy hosts: %+v, %v", busy, err)
	}
	if lost, err := w.Hold(t.Context(), []uuid.UUID{turns[0].Holder, turns[1].Holder}); err != nil || len(lost) != 0 {
		t.Errorf("lost %v, %v", lost, err)
	}

	// One who gives no sign of life for a minute loses the turn, and can't change anything any more.
	w.exec(t, "UPDATE carillon.source_walks SET held_until = clock_timestamp() WHERE source_id = $1", first)
	mine, now := w.Walk(turns[0]), theirs.take(t, 1)[0]
	if now.Source.ID != first || now.Holder == turns[0].Holder {
		t.Fatalf("turn: %+v", now)
	}
	settle := func() error { // which is kept with the next write
		if err := mine.Settle(t.Context(), []visiting.Settled{{Happening: uuid.New()}}, visiting.Tally{}); err != nil {
			return err
		}
		_, err := mine.Waiting(t.Context())
		return err
	}
	for what, err := range map[string]error{
		"begin": mine.Begin(t.Context(), []collect.Link{{Address: "a"}}),
		"record": mine.Record(t.Context(), collect.Visited{Known: collect.Known{Link: collect.Link{Address: "a"}}}, nil,
			visiting.Tally{}),
		"settle":   settle(),
		"conclude": mine.Conclude(t.Context()),
		"leave":    mine.Leave(t.Context(), visiting.Next{}),
	} {
		if !errors.Is(err, visiting.ErrLost) {
			t.Errorf("%s: %v, want that the turn is lost", what, err)
		}
	}
	if lost, err := w.Hold(t.Context(), []uuid.UUID{turns[0].Holder, turns[1].Holder}); err != nil || len(lost) != 1 ||
		lost[0] != turns[0].Holder {
		t.Errorf("lost %v, %v", lost, err)
	}
}

// A wish that comes once the turn was given is not what the walk is for: if nothing is recorded of the walk, because
// another one had its number before what is remembered was lost, another walk is for the wish.
func TestLaterRequestGetsAnotherWalk(t *testing.T) {
	t.Parallel()
	w := openWalks(t)
	id := w.source(t, "https://example.org/")
	turn := w.take(t, 1)[0]
	projecttest.Stream(w.log, source.Aggregate, id, time.Now())(source.CollectionRequested{At: time.Now().UTC()})
	w.log.Project()
	walk := w.Walk(turn)
	if err := walk.Begin(t.Context(), []collect.Link{{Address: "a"}}); err != nil {
		t.Fatal(err)
	}
	if err := walk.Leave(t.Context(), visiting.Next{
		Over:      true,
		Completed: true,
		In:        time.Hour,
		Interval:  time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	if turn = w.take(t, 1)[0]; !turn.Fresh || !turn.Wanted || turn.Number != 2 {
		t.Errorf("turn: %+v", turn)
	}
}

// Sources that wait for their time, and unwanted ones, get no turn.
func TestTurnsHaveTheirTime(t *testing.T) {
	t.Parallel()
	w := openWalks(t)
	id := w.source(t, "https://example.org/")
	turn := w.take(t, 1)[0]
	if !turn.Wanted || turn.Number != 1 {
		t.Errorf("turn: %+v", turn)
	}
	walk := w.Walk(turn)
	if err := walk.Begin(t.Context(), []collect.Link{{Address: "a"}}); err != nil {
		t.Fatal(err)
	}
	if err := walk.Leave(t.Context(), visiting.Next{}); err != nil { // to go on at its next turn
		t.Fatal(err)
	}
	if turn = w.take(t, 1)[0]; turn.Fresh || !turn.Wanted || turn.Number != 1 {
		t.Errorf("turn: %+v", turn)
	}
	walk = w.Walk(turn)
	if err := walk.Leave(t.Context(), visiting.Next{
		Over:      true,
		Completed: true,
		In:        time.Hour,
		Interval:  time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	w.take(t, 0) // the read model still shows the wish that the walk was for
	projecttest.Stream(w.log, source.Aggregate, id, time.Now())(source.CollectionRequested{At: time.Now().UTC()})
	w.log.Project()
	if turn = w.take(t, 1)[0]; !turn.Fresh || !turn.Wanted || turn.Number != 2 || turn.Interval != time.Hour {
		t.Errorf("turn: %+v", turn)
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
		if err != nil || got.Hosts != hosts || got.Longest < atLeast || (hosts == 0) != (got.Longest == 0) {
			t.Errorf("%s: %+v, %v, want %d hosts and at least %s", when, got, err, hosts, atLeast)
		}
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
		if err := walk.Begin(t.Context(), []collect.Link{{Address: "a"}}); err != nil {
			t.Fatal(err)
		}
		if err := walk.Leave(t.Context(), next); err != nil {
			t.Fatal(err)
		}
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
	if err := walk.Begin(t.Context(), []collect.Link{{Address: "a"}}); err != nil {
		t.Fatal(err)
	}
	if err := walk.Leave(t.Context(), visiting.Next{}); err != nil {
		t.Fatal(err)
	}
	const ahead = `UPDATE carillon.source_walks
		SET attempted_at = attempted_at + interval '1 day', next_at = next_at + interval '1 day' WHERE source_id = $1`
	w.exec(t, ahead, id)
	w.take(t, 0)
	restarted := &walks{Walks: adapters.NewWalks(w.pool)} // looks at all at once
	for {                                                 // as long after the look as the visit took
		turns, err := restarted.Take(t.Context(), 10, nil)
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil || (wait == 0) != want {
			t.Errorf("a turn at the host: wait %s, %v, want %v", wait, err, want)
		}
	}
	turn(true)
	turn(false)
	w.exec(t, "UPDATE carillon.hosts SET next_at = next_at + interval '1 day'")
	turn(true)
	turn(false)
}
