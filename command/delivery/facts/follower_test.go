package facts

import (
	"context"
	"encoding/base64"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/delivery/schedule"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	owner         = uuid.New()
	signingSecret = secretOf(0)
)

func secretOf(b byte) []byte {
	key := slices.Repeat([]byte{b}, 32)
	return []byte("whsec_" + base64.StdEncoding.EncodeToString(key))
}

// plain is a vault of plain values.
type plain struct{}

func (plain) Open(_ context.Context, _ uuid.UUID, _ sealing.Field, sealed []byte) ([]byte, error) {
	return sealed, nil
}

func follower(store eventstore.Store, vault Vault) *Follower {
	return &Follower{
		Store: store,
		Vault: vault,
		Now:   time.Now,
		Log:   slog.New(slog.DiscardHandler),
	}
}

func execute(t *testing.T, store eventstore.Store, id uuid.UUID, command destination.Command) eventstore.Position {
	t.Helper()
	out := must.Get(destination.Aggregate.Execute(t.Context(), store, id, command, destination.Options{}))(t)
	return out.Position
}

func makeDestination(t *testing.T, store eventstore.Store) uuid.UUID {
	t.Helper()
	id := uuid.New()
	execute(t, store, id, destination.Create{
		Organization: owner,
		Settings:     destination.Settings{Name: "hook", URL: "https://example.org"},
		SecretID:     uuid.New(),
		Secret:       signingSecret,
		At:           time.Now(),
	})
	return id
}

// held is a store whose subscriptions yield events only while they are let through.
type held struct {
	eventstore.Store

	through chan struct{} // closed to let all through
	waits   chan struct{} // an event was held back
}

func (h held) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		for m, err := range h.Store.Subscribe(ctx, after, filter) {
			if m.Event != nil {
				select {
				case h.waits <- struct{}{}:
				default:
				}
				select {
				case <-h.through:
				case <-ctx.Done():
				}
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// signals are sent for whatever a follower notifies its listener of.
type signals chan struct{}

func (s signals) Applied(context.Context, *eventstore.Recorded, any) { s <- struct{}{} }

func (s signals) Following(bool) { s <- struct{}{} }

// TestFollower_heldBack: a follower whose subscription is held back still signs by an expired secret, and its position
// says so: who awaits it, is not answered before.
func TestFollower_heldBack(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	hook := makeDestination(t, store)
	f := follower(held{store, make(chan struct{}), make(chan struct{}, 1)}, plain{})
	held, ok := f.Store.(held)
	must.True(t, ok, "no store that holds back")
	heard := make(signals, 10)
	f.Listener = heard
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	<-heard
	secrets := func() int {
		to, _, err := f.MaySend(t.Context(), &schedule.Delivery{Organization: owner, Destination: hook}, time.Now())
		must.OK(t, err)
		return len(to.secrets)
	}
	must.Equal(t, secrets(), 1, "signed by … secrets")
	at := execute(t, store, hook, destination.Rotate{
		Organization: owner,
		SecretID:     uuid.New(),
		Secret:       secretOf(1),
		At:           time.Now(),
	})
	<-held.waits
	if n := secrets(); n != 1 || !f.Applied().Before(at) {
		t.Errorf("signed by %d secrets at %s; held back before %s", n, f.Applied(), at)
	}
	close(held.through)
	if <-heard; f.Applied().Before(at) {
		t.Error("applied, and the position is an older one")
	}
	assert.Equal(t, secrets(), 2, "signed by … secrets once the rotation is applied")
}

// A value read before a change is not cached after it, and none is while changes are not followed.
func TestCacheForgetsWhatChanged(t *testing.T) {
	t.Parallel()
	id, reads := uuid.New(), 0
	r := newCache(func(context.Context, uuid.UUID) (int, error) { reads++; return reads, nil }, nil)
	get := func(want int) {
		t.Helper()
		got, err := r.get(t.Context(), id)
		assert.True(t, got == want && err == nil, "%d (%v), want %d", got, err, want)
	}
	get(1)
	get(2) // not followed
	r.follow(true)
	get(3)
	get(3)
	r.forget(id)
	get(4)
	reading := r.read
	r.forget(id)
	r.read = func(ctx context.Context, id uuid.UUID) (int, error) { r.forget(id); return reading(ctx, id) }
	get(5) // it changes while it is read
	r.read = reading
	get(6)
	r.forget(id)
	r.read = func(ctx context.Context, id uuid.UUID) (int, error) {
		r.follow(false)
		r.follow(true)
		return reading(ctx, id)
	}
	get(7) // changes are missed while it is read
	r.read = reading
	get(8)
	for range 2 * maxCached {
		must.Get(r.get(t.Context(), uuid.New()))(t)
	}
	assert.Equal(t, r.values.Len(), maxCached, "remembered")
	r.follow(false)
	assert.Equal(t, r.values.Len(), 0, "remembered while nothing is followed")
}

// An expired secret is left out, and if one can't be opened the others sign.
func TestTarget_secrets(t *testing.T) {
	t.Parallel()
	now := time.Now()
	sealed := &destination.Target{Secrets: []destination.SealedSecret{
		{Sealed: signingSecret, ExpiresAt: now.Add(time.Hour)}, {Sealed: signingSecret},
		{Sealed: signingSecret, ExpiresAt: now},
	}}
	to, err := OpenTarget(t.Context(), plain{}, sealed, now)
	assert.True(t, err == nil && len(to.secrets) == 2 && to.until.Equal(now.Add(time.Hour)),
		"%d secrets until %s (%v), want 2 for an hour", len(to.secrets), to.until, err)
	to, err = OpenTarget(t.Context(), damaged{opens: new(bool)}, sealed, now)
	assert.True(t, err == nil && len(to.secrets) == 1 && to.until.Equal(now.Add(mendPause)),
		"%d secrets until %s (%v), want 1 for a minute", len(to.secrets), to.until, err)
}

// damaged can't open each second secret.
type damaged struct {
	Vault

	opens *bool
}

func (d damaged) Open(_ context.Context, _ uuid.UUID, _ sealing.Field, plain []byte) ([]byte, error) {
	if *d.opens = !*d.opens; !*d.opens {
		return plain, nil
	}
	return nil, sealing.ErrDamaged
}

// Limits are those of the start, and as events set them since.
func TestFollowerKnowsLimits(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	revised, deleted, freed := makeDestination(t, store), makeDestination(t, store), makeDestination(t, store)
	f := follower(store, plain{})
	f.Standing = func(context.Context) ([]uuid.UUID, map[uuid.UUID]float64, error) {
		return nil, map[uuid.UUID]float64{revised: 5, deleted: 6, freed: 7}, nil
	}
	assert.True(t, !f.Ready(), "ready before the limits are known")
	f.readStanding(t.Context())
	limits := func(wantRevised, wantDeleted, wantFreed float64) {
		t.Helper()
		r, d, n := f.Limit(revised), f.Limit(deleted), f.Limit(freed)
		assert.True(t, f.Ready() && r == wantRevised && d == wantDeleted && n == wantFreed,
			"limits %g, %g, %g; want %g, %g, %g", r, d, n, wantRevised, wantDeleted, wantFreed)
	}
	limits(5, 6, 7)
	f.init()
	f.disabled = map[uuid.UUID]struct{}{}
	apply := func(id uuid.UUID, event destination.Event) {
		name, data, err := destination.Events.Encode(event)
		must.OK(t, err)
		f.apply(t.Context(), &eventstore.Recorded{
			Stream: destination.Aggregate.Stream(id),
			Type:   name,
			Data:   data,
		})
	}
	apply(revised, destination.Revised{Settings: destination.Settings{Plain: destination.Plain{MaxRequestsPerSecond: 8}}})
	apply(deleted, destination.Deleted{})
	apply(freed, destination.Revised{})
	limits(8, 0, 0)
	apply(deleted, destination.Created{Settings: destination.Settings{Plain: destination.Plain{MaxRequestsPerSecond: 9}}})
	limits(8, 9, 0)
}
