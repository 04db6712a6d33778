package routing

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/command/delivery/deliverytest"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon  = deliverytest.Noon
	alice = deliverytest.Alice
	bob   = deliverytest.Bob
	news  = deliverytest.News
	hook  = deliverytest.Hook
	other = deliverytest.Other
	sub   = deliverytest.Sub
	all   = deliverytest.All
	storm = deliverytest.Storm

	debounces = deliverytest.Debounced
)

// stored turns an event of any aggregate into its recorded form.
func stored[S, E, C any](t testing.TB, a eventstore.Aggregate[S, E, C], id uuid.UUID, event E) *eventstore.Recorded {
	t.Helper()
	name, data, err := a.Codec.Encode(event)
	must.OK(t, err)
	return &eventstore.Recorded{
		ID:      uuid.New(),
		Stream:  a.Stream(id),
		Type:    name,
		Data:    data,
		Created: noon,
	}
}

type history struct {
	t      testing.TB
	state  *eventstore.ProcessState
	routes *Routes
}

func (h *history) destination(id uuid.UUID, events ...destination.Event) {
	h.t.Helper()
	for _, e := range events {
		must.OK(h.t, h.routes.Apply(stored(h.t, destination.Aggregate, id, e)))
	}
}

func (h *history) subscription(id uuid.UUID, events ...subscription.Event) {
	h.t.Helper()
	for _, e := range events {
		must.OK(h.t, h.routes.Apply(stored(h.t, subscription.Aggregate, id, e)))
	}
}

func (h *history) feed(id uuid.UUID, events ...feed.Event) {
	h.t.Helper()
	for _, e := range events {
		must.OK(h.t, h.routes.Apply(stored(h.t, feed.Aggregate, id, e)))
	}
}

// town is a news feed of alice's, and an endpoint of hers that wants everything.
func town(t testing.TB) *history {
	t.Helper()
	state := &eventstore.ProcessState{}
	h := &history{t: t, state: state, routes: New(state)}
	h.feed(news, feed.Registered{Organization: alice, FeedType: "news", Name: "News"})
	h.destination(hook, destination.Created{Organization: alice,
		Settings: destination.Settings{URL: "https://example.org"}}, destination.SecretMinted{SecretID: uuid.New()})
	h.subscription(sub, subscription.Created{Organization: alice, Destination: hook, Settings: all})
	return h
}

func receivers(scheduled []dispatch.Scheduled) []uuid.UUID {
	ids := []uuid.UUID{}
	for _, s := range scheduled {
		ids = append(ids, s.Destination)
	}
	return ids
}

func TestRoutes_receivers(t *testing.T) {
	t.Parallel()
	unfed := storm
	unfed.FeedType, unfed.FeedID, unfed.Organization = "", uuid.Nil, bob
	bobs := func(h *history) {
		h.destination(other, destination.Created{Organization: bob,
			Settings: destination.Settings{URL: "https://example.net"}})
		h.subscription(uuid.UUID{4, 2}, subscription.Created{Organization: bob, Destination: other, Settings: all})
	}
	tests := map[string]struct {
		happened func(*history)
		event    publication.Published
		want     []uuid.UUID
	}{
		"the owner of the feed": {func(*history) {}, storm, []uuid.UUID{hook}},
		"a reader that it is shared with": {func(h *history) {
			h.feed(news, feed.Shared{With: bob})
			bobs(h)
		}, storm, []uuid.UUID{hook, other}},
		"no longer shared": {func(h *history) {
			h.feed(news, feed.Shared{With: bob}, feed.Unshared{With: bob})
			bobs(h)
		}, storm, []uuid.UUID{hook}},
		"an event without a feed stays in its organization": {func(*history) {}, unfed, []uuid.UUID{}},
		"a disabled destination": {func(h *history) {
			h.destination(hook, destination.Disabled{})
		}, storm, []uuid.UUID{}},
		"an auto-disabled destination": {func(h *history) { h.destination(hook, destination.AutoDisabled{}) },
			storm, []uuid.UUID{}},
		"enabled again": {func(h *history) {
			h.destination(hook, destination.AutoDisabled{}, destination.Enabled{})
		}, storm, []uuid.UUID{hook}},
		"a deleted destination": {func(h *history) { h.destination(hook, destination.Deleted{}) }, storm,
			[]uuid.UUID{}},
		"a deleted subscription": {func(h *history) { h.subscription(sub, subscription.Deleted{}) }, storm,
			[]uuid.UUID{}},
		"an inactive subscription": {func(h *history) {
			h.subscription(sub, subscription.Deactivated{})
		}, storm, []uuid.UUID{}},
		"active again": {func(h *history) {
			h.subscription(sub, subscription.Deactivated{}, subscription.Activated{})
		}, storm, []uuid.UUID{hook}},
		"a subscription to something else": {func(h *history) {
			h.subscription(sub, subscription.Revised{
				Settings: subscription.Settings{EventTypes: []string{"event.*"}, ScopeKind: "all"},
			})
		}, storm, []uuid.UUID{}},
		"a deleted feed": {func(h *history) { h.feed(news, feed.Deleted{}) }, storm, []uuid.UUID{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := town(t)
			tt.happened(h)
			got := receivers(h.routes.Dispatch(uuid.New(), tt.event, noon))
			assert.Same(t, got, tt.want)
		})
	}
}

func TestRoutes_subscriptionsMakeOneDelivery(t *testing.T) {
	t.Parallel()
	h := town(t)
	second := uuid.UUID{4, 9}
	h.subscription(second, subscription.Created{Organization: alice, Destination: hook, Settings: all})
	got := h.routes.Dispatch(uuid.New(), storm, noon)
	assert.True(t, len(got) == 1 && slices.Equal(got[0].Subscriptions, []uuid.UUID{sub, second}),
		"scheduled %+v, want one delivery of both subscriptions", got)
}

func TestDebounce_keepsNewestUntilClose(t *testing.T) {
	t.Parallel()
	h := town(t)
	h.destination(hook, debounces(60))
	first, second, third, elsewhere := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	closes := noon.Add(time.Minute)
	a := h.routes.Dispatch(first, storm, noon)[0]
	assert.True(t, a.NotBefore.Equal(closes) && a.Supersedes == uuid.Nil, "the first: %+v", a)
	b := h.routes.Dispatch(second, storm, noon.Add(59*time.Second))[0]
	assert.True(t, b.NotBefore.Equal(closes) && b.Supersedes == dispatch.DeliveryID(first, hook), "the second: %+v", b)
	calm := storm
	calm.Subject = "calm"
	assert.Equal(t, h.routes.Dispatch(elsewhere, calm, noon.Add(59*time.Second))[0].Supersedes, uuid.Nil,
		"another subject")
	d := h.routes.Dispatch(third, storm, closes)[0]
	assert.True(t, d.NotBefore.Equal(closes.Add(time.Minute)) && d.Supersedes == uuid.Nil, "after the window: %+v", d)
}

// Events within one window are merged only if they are about the same subject of the same source and feed.
func TestDebounceMergesOneSubjectOnly(t *testing.T) {
	t.Parallel()
	sports := uuid.UUID{2, 2}
	tests := map[string]struct {
		change func(*publication.Published)
		merged bool
	}{
		"the same":       {func(*publication.Published) {}, true},
		"other data":     {func(p *publication.Published) { p.Data = []byte(`{"a":1}`) }, true},
		"another type":   {func(p *publication.Published) { p.Type = "news.item.updated" }, false},
		"another source": {func(p *publication.Published) { p.Source = "/elsewhere" }, false},
		"another feed":   {func(p *publication.Published) { p.FeedID = sports }, false},
		"no feed": {func(p *publication.Published) {
			p.FeedType, p.FeedID, p.Organization = "", uuid.Nil, alice
		}, false},
		"the same text": {func(p *publication.Published) { p.Source, p.Subject = "/new", "storms" }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := town(t)
			h.feed(sports, feed.Registered{Organization: alice, FeedType: "news", Name: "Sports"})
			h.destination(hook, debounces(60))
			first, changed := uuid.New(), storm
			tt.change(&changed)
			h.routes.Dispatch(first, storm, noon)
			got := h.routes.Dispatch(uuid.New(), changed, noon.Add(time.Second))[0]
			if merged := got.Supersedes == dispatch.DeliveryID(first, hook); merged != tt.merged {
				t.Errorf("scheduled %+v, want merged: %t", got, tt.merged)
			}
		})
	}
}

// Two events without a subject may be about different things: each is sent, and at once.
func TestDebounceLeavesEventsWithoutSubject(t *testing.T) {
	t.Parallel()
	h := town(t)
	h.destination(hook, debounces(60))
	bare := storm
	bare.Subject = ""
	for range 3 {
		got := h.routes.Dispatch(uuid.New(), bare, noon)[0]
		assert.True(t, got.Supersedes == uuid.Nil && got.NotBefore.IsZero(), "scheduled %+v, want no window", got)
	}
}

// Windows that a version before saved were of a type and subject alone: they replace nothing, and are dropped when
// closed.
func TestDebounceOldWindowsReplaceNothing(t *testing.T) {
	t.Parallel()
	h := town(t)
	h.destination(hook, debounces(60))
	old := eventstore.SavedRow{
		Kind: "window", ID: `["` + hook.String() + `","news.item.added","storm"]`,
		Data: []byte(`{"closes":"2026-11-21T12:00:30Z","delivery":"33333333-3333-4333-8333-333333333333"}`),
	}
	must.OK(t, h.state.Restore(old))
	assert.Equal(t, h.routes.Dispatch(uuid.New(), storm, noon)[0].Supersedes, uuid.Nil,
		"scheduled … which replaces a delivery that may be of another feed")
	h.routes.DropClosedDebounces(noon.Add(time.Minute))
	rows, err := h.state.Changed()
	if err != nil || !slices.ContainsFunc(rows,
		func(r eventstore.SavedRow) bool { return r.Kind == old.Kind && r.ID == old.ID && r.Data == nil }) {
		t.Errorf("the old window stays: %v", err)
	}
}

// Saved windows are found by an index of Postgres, whose keys have at most 2,704 bytes.
func TestDebounceWindowKeysAreShort(t *testing.T) {
	t.Parallel()
	h := town(t)
	h.destination(hook, debounces(60))
	long := storm
	long.Source, long.Subject = strings.Repeat("ö", 2048), strings.Repeat("ß", 2048)
	h.routes.Dispatch(uuid.New(), long, noon)
	rows := must.Get(h.state.Changed())(t)
	for _, row := range rows {
		if row.Kind == "window" && len(row.ID) > 100 {
			t.Errorf("a key of %d bytes", len(row.ID))
		}
	}
}

// Routes that were saved and restored at any moment dispatch later events as before.
func TestSavedRoutesDispatchTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		lasting, saved := town(t), town(t)
		rows := map[string]eventstore.SavedRow{}
		clock := noon
		restart := func() {
			saved.routes.DropClosedDebounces(clock)
			changed, err := saved.state.Changed()
			if err != nil {
				rt.Fatal(err)
			}
			for _, row := range changed {
				rows[row.Kind+row.ID] = row
			}
			saved.state = &eventstore.ProcessState{}
			saved.routes = New(saved.state)
			for _, row := range rows {
				if row.Data == nil {
					continue
				}
				if err := saved.state.Restore(row); err != nil {
					rt.Fatal(err)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			clock = clock.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds")) * time.Second)
			step := rapid.IntRange(0, 7).Draw(rt, "step")
			for _, h := range []*history{lasting, saved} {
				switch step {
				case 0:
					h.destination(hook, destination.Disabled{})
				case 1:
					h.destination(hook, destination.Enabled{})
				case 2:
					h.destination(hook, debounces(30))
				case 3:
					h.subscription(sub, subscription.Deactivated{})
				case 4:
					h.subscription(sub, subscription.Activated{})
				case 5:
					h.feed(news, feed.Shared{With: bob})
				}
			}
			if step == 6 {
				restart()
			}
			event := uuid.New()
			want, got := lasting.routes.Dispatch(event, storm, clock), saved.routes.Dispatch(event, storm, clock)
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("after a restart (-without +with):\n%s", diff)
			}
		}
	})
}

// Packed settings match like the settings, and are stored alike.
func TestWantsMatchAsSettingsDo(t *testing.T) {
	t.Parallel()
	kinds, types := rapid.SampledFrom(subscription.FeedTypes),
		rapid.SampledFrom([]string{"news.item.added", "news.item.updated", "event.item.added", "new"})
	feeds := rapid.Custom(func(t *rapid.T) uuid.UUID {
		return uuid.UUID{rapid.ByteMax(4).Draw(t, "feed"), 15: rapid.ByteMax(1).Draw(t, "last")}
	})
	rapid.Check(t, func(t *rapid.T) {
		s := subscription.Settings{
			EventTypes: rapid.SliceOfN(rapid.SampledFrom([]string{"*", "news.*", "news.item.added", "event.*",
				"none"}), 1, 4).Draw(t, "types"),
			ScopeKind: rapid.SampledFrom([]string{subscription.ScopeAll, subscription.ScopeFeedType,
				subscription.ScopeFeeds}).Draw(t, "scope"),
			FeedType: kinds.Draw(t, "kind"),
		}
		for range rapid.IntRange(0, 8).Draw(t, "pins") {
			s.Feeds = append(s.Feeds, subscription.Pin{FeedType: kinds.Draw(t, "pin kind"),
				FeedID: feeds.Draw(t, "pin")})
		}
		data, err := json.Marshal(wanted(s))
		var read wants
		if err == nil {
			err = json.Unmarshal(data, &read)
		}
		if err != nil || read != wanted(s) || !read.settings().Equal(s) {
			t.Fatalf("stored as %s, read as %+v, %v (%s)", data, read.settings(), err, cmp.Diff(s, read.settings()))
		}
		for range 8 {
			eventType, kind, feed := types.Draw(t, "type"), kinds.Draw(t, "of"), feeds.Draw(t, "from")
			if got, want := read.matches(eventType, kind, feed), s.Matches(eventType, kind, feed); got != want {
				t.Errorf("%s from %s %s: %t, want %t", eventType, kind, feed, got, want)
			}
			pinned := false
			for _, pin := range s.Feeds {
				pinned = pinned || pin.FeedID == feed
			}
			if got := read.PinsFeed(feed); got != pinned {
				t.Errorf("pins %s: %t, want %t", feed, got, pinned)
			}
		}
	})
}
