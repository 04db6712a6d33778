package deliveries_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
)

const (
	me    = int32(1)
	peer  = int32(2)
	lease = time.Minute
)

// claim claims for a worker while both live.
func (h history) claim(
	worker int32, perDestination, limit int, now time.Time, saturated ...uuid.UUID,
) []deliveries.Claimed {
	h.t.Helper()
	h.takeBack(now)
	claimed := must.Get(claimOnce(h.t.Context(), h.Database, worker, deliveries.Ask{
		Full:           saturated,
		PerDestination: perDestination,
		Limit:          limit,
	}, now))(h.t)
	return claimed
}

// claimOnce looks and claims.
func claimOnce(
	ctx context.Context, pool *pgxpool.Pool, worker int32, ask deliveries.Ask, now time.Time,
) ([]deliveries.Claimed, error) {
	seen, err := deliveries.Look(ctx, pool, &pgx.Batch{}, now)
	if err != nil {
		return nil, err
	}
	return deliveries.NewClaimer(pool, worker).Claim(ctx, ask, lease, seen)
}

// takeBack frees what dead workers hold, and leases that have ended.
func (h history) takeBack(now time.Time, dead ...int32) {
	h.t.Helper()
	must.OK(h.t, deliveries.TakeBack(h.t.Context(), h.Database, dead, now))
}

// by counts claimed deliveries by destination.
func by(claimed []deliveries.Claimed) map[uuid.UUID]int {
	count := map[uuid.UUID]int{}
	for _, c := range claimed {
		count[c.Destination]++
	}
	return count
}

func TestClaimBringsAllThatAnAttemptNeeds(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	h.due(1, to(alpha))
	next := noon.Add(5 * time.Second)
	h.happens(1, alpha, failed(1, alpha, noon, next))
	h.Project()

	assert.Equal(t, len(h.claim(me, 10, 10, next.Add(-time.Microsecond))), 0, "claimed … before they were due")
	claimed := h.claim(me, 10, 10, next)
	for i := range claimed {
		claimed[i].DueAt, claimed[i].LeasedUntil = claimed[i].DueAt.UTC(), claimed[i].LeasedUntil.UTC()
		claimed[i].Event.Time, claimed[i].Event.RecordedAt = claimed[i].Event.Time.UTC(), claimed[i].Event.RecordedAt.UTC()
	}
	want := []deliveries.Claimed{{
		ID:            dispatch.DeliveryID(event(1), alpha),
		Subscriptions: []uuid.UUID{sub},
		Attempts:      1,
		Automatic:     1,
		Revision:      0,
		DueAt:         next,
		LeasedUntil:   next.Add(lease),
		Destination:   alpha,
		Organization:  org,
		Event: &deliveries.Event{
			ID: event(1),
			Published: publication.Published{
				Type:     "news.item.added",
				Source:   "https://example.org/feeds/city",
				Subject:  "item/1",
				Time:     noon,
				FeedType: "news",
				FeedID:   feed,
				Data:     []byte(`{"title":"No. 1","n":1.50}`),
			},
			RecordedAt: noon,
		},
	}}
	assert.Same(t, claimed, want)
}

// A claim takes nothing for an organization that has used up its share, nor for a full destination, and little for a
// slow one; for the others it takes as much as without them.
func TestClaimTakesWhatItIsAskedFor(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	theirs, beta, gamma := uuid.New(), uuid.New(), uuid.New()
	for _, d := range []uuid.UUID{alpha, beta, gamma} {
		h.destination(d)
	}
	poor := uuid.New()
	projecttest.Stream(h.Log, destination.Aggregate, poor, noon)(destination.Created{
		Organization: theirs, At: noon, Settings: destination.Settings{Name: "CRM", URL: "https://example.org/"},
	}, destination.SecretMinted{SecretID: uuid.New(), Sealed: []byte("sealed secret"), At: noon})
	const events = 10
	for n := range events {
		h.due(n, to(alpha), to(beta), to(gamma), dispatch.Scheduled{
			Destination:   poor,
			Organization:  theirs,
			Subscriptions: []uuid.UUID{sub},
		})
	}
	h.Project()
	claimed := must.Get(claimOnce(t.Context(), h.Database, me, deliveries.Ask{
		Limit:          100,
		PerDestination: 8,
		Full:           []uuid.UUID{beta},
		Slow:           []uuid.UUID{gamma},
		PerSlow:        2,
		Over:           []uuid.UUID{theirs},
	}, noon))(t)
	assert.Same(t, by(claimed), map[uuid.UUID]int{alpha: 8, gamma: 2})
	rest := by(h.claim(peer, events, 100, noon))
	assert.True(t, rest[poor] == events && rest[beta] == events, "another worker claimed %v of the rest", rest)
}

func TestClaimRespectsLeases(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	h.due(1, to(alpha))
	h.Project()
	id := dispatch.DeliveryID(event(1), alpha)
	steps := []struct {
		what string
		at   time.Time
		want int
	}{
		{"free", noon, 1},
		{"held by a live worker", noon.Add(lease - time.Microsecond), 0},
		{"held for longer than its lease", noon.Add(lease), 1},
		{"held again", noon.Add(lease), 0},
	}
	for _, step := range steps {
		must.Equal(t, len(h.claim(me, 10, 10, step.at)), step.want, "%s: claimed", step.what)
	}

	seen, err := deliveries.Look(t.Context(), h.Database, &pgx.Batch{}, noon)
	holders := seen.Holders
	must.True(t, err == nil && len(holders) == 1 && holders[0].Worker == me && holders[0].Ends.Equal(noon.Add(2*lease)),
		"holders %+v (%v), want this worker until its lease ends", holders, err)
	held, err := deliveries.Held(t.Context(), h.Database, me, noon.Add(2*lease+time.Second))
	must.True(t, err == nil && slices.Equal(held, []uuid.UUID{id}), "held %v (%v), want the delivery", held, err)
	h.takeBack(noon.Add(lease), me)
	must.Equal(t, len(h.claim(peer, 10, 10, noon.Add(lease))), 1, "of a worker that died: claimed")
	must.OK(t, deliveries.Release(t.Context(), h.Database, me, []uuid.UUID{id}))
	must.Equal(t, len(h.claim(me, 10, 10, noon.Add(lease))), 0, "a worker gave back what another one holds")
	must.OK(t, deliveries.Release(t.Context(), h.Database, peer, []uuid.UUID{id}))
	must.Equal(t, len(h.claim(me, 10, 10, noon.Add(lease))), 1, "given back: claimed")
	h.happens(1, alpha, succeeded(1, alpha, noon))
	h.Project()
	must.Equal(t, len(h.claim(peer, 10, 10, noon.Add(time.Hour))), 0, "succeeded: claimed")
}

func TestClaim_disabledDestinationsGetReplays(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	projecttest.Stream(h.Log, destination.Aggregate, alpha, noon)(destination.AutoDisabled{
		Reason: "100 consecutive failures",
		At:     noon,
	})
	for n := range 3 {
		h.due(n, to(alpha))
	}
	replay := uuid.New()
	h.happens(0, alpha, gaveUp(1, alpha, noon), replayWanted(alpha, replay, noon))
	h.Project()
	claimed := h.claim(me, 10, 10, noon)
	must.True(t, len(claimed) == 1 && claimed[0].Replay == replay && claimed[0].Attempts == 1,
		"claimed %+v of a destination that is not enabled, want the replay only", claimed)
	projecttest.Stream(h.Log, destination.Aggregate, alpha, noon)(destination.Enabled{At: noon})
	h.Project()
	assert.Equal(t, len(h.claim(me, 10, 10, noon)), 2, "claimed … after it was enabled")
}

func TestClaimIsFair(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	gamma := uuid.New()
	for _, id := range []uuid.UUID{alpha, beta, gamma} {
		h.destination(id)
	}
	for n := range 40 {
		h.due(n, to(alpha))
		if n < 5 {
			h.schedule(n, noon, to(beta), to(gamma))
		}
	}
	h.Project()
	assert.Same(t, by(h.claim(me, 20, 9, noon)), map[uuid.UUID]int{alpha: 3, beta: 3, gamma: 3})
	assert.Same(t, by(h.claim(me, 4, 20, noon, beta)), map[uuid.UUID]int{alpha: 4, gamma: 2})
	assert.Equal(t, len(h.claim(me, 20, 3, noon)), 3, "claimed … want no more than the limit of 3")
	all := by(h.claim(me, 100, 100, noon))
	assert.True(t, all[gamma] == 0 && all[alpha]+all[beta] == 40-3-4+5-3-3, "claimed %v of the rest", all)
}

// Claims that take less than there is do not begin with the same destinations each time.
func TestEveryDestinationHasItsTurn(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.publish(1)
	for range 30 {
		id := uuid.New()
		h.destination(id)
		h.schedule(1, noon, to(id))
	}
	h.Project()
	turns := map[uuid.UUID]int{}
	for range 30 {
		for _, one := range h.claim(me, 5, 1, noon) {
			turns[one.Destination]++
			must.OK(t, deliveries.Release(t.Context(), h.Database, me, []uuid.UUID{one.ID}))
		}
	}
	assert.True(t, len(turns) >= 5, "turns were %v", turns) // fewer by chance: once in 10^19
}

func TestClaimWaitsForTheEvent(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	h.schedule(1, noon, to(alpha))
	h.Project()
	must.Equal(t, len(h.claim(me, 10, 10, noon)), 0, "claimed a delivery without its event")
	h.publish(1)
	h.Project()
	assert.Equal(t, len(h.claim(me, 10, 10, noon.Add(time.Second))), 1, "claimed … a second later")
}

// TestManyClaimAtOnce has six workers claim while the projector writes the outcomes: each delivery goes to one of them,
// and neither waits for the other permanently.
func TestManyClaimAtOnce(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	h.destination(beta)
	const events = 150
	number := map[uuid.UUID]int{}
	for n := range events {
		number[event(n)] = n
		h.due(n, to(alpha), to(beta))
	}
	h.Project()
	var (
		ctx, stop = context.WithCancel(t.Context())
		sent      = make(chan []deliveries.Claimed)
		workers   = []int32{1, 2, 3, 4, 5, 6}
		group     sync.WaitGroup
	)
	defer stop()
	for _, worker := range workers {
		group.Go(func() {
			for {
				claimed, err := claimOnce(ctx, h.Database, worker, deliveries.Ask{PerDestination: 5, Limit: 7}, noon)
				assert.True(t, err == nil || ctx.Err() != nil, "%v", err)
				select {
				case sent <- claimed:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	taken := map[uuid.UUID]bool{}
	for deadline := time.After(time.Minute); len(taken) < 2*events; {
		select {
		case claimed := <-sent:
			for _, c := range claimed {
				must.True(t, !taken[c.ID], "claimed twice: %s", c.ID)
				taken[c.ID] = true
				h.happens(number[c.Event.ID], c.Destination, succeeded(1, c.Destination, noon))
			}
			h.Project()
		case <-deadline:
			t.Fatalf("claimed %d of %d", len(taken), 2*events)
		}
	}
	stop()
	group.Wait()
	assert.Equal(t, h.count("SELECT count(*) FROM deliveries.due"), 0, "are due after all succeeded")
}
