package routing

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// Routes maps events to their receivers. It is folded from feed, destination and subscription events in their
// global order, so that at each published event it is exactly what it was when the event was published: dispatching
// again after a crash comes to the same result. It is not safe for concurrent use.
type Routes struct {
	Feeds         *eventstore.SavedTable[uuid.UUID, Feed]
	Targets       *eventstore.SavedTable[uuid.UUID, Target]
	Subscriptions *eventstore.SavedTable[uuid.UUID, Subscription]
	debounces     *eventstore.SavedTable[debounceKey, debounced]
	byOrg         map[uuid.UUID]map[uuid.UUID]*Subscription // active ones
}

// Feed is the part of a feed that selects its readers.
type Feed struct {
	Type   string      `json:"type"`
	Owner  uuid.UUID   `json:"owner"`
	Shared []uuid.UUID `json:"shared,omitempty"`
}

// Target is the part of a destination that selects its events. Rows of versions before have more.
type Target struct {
	Organization    uuid.UUID `json:"organization"`
	Enabled         bool      `json:"enabled"`
	DebounceSeconds int       `json:"debounceSeconds"`
}

// Subscription is the part of a subscription that selects its events.
type Subscription struct {
	ID           uuid.UUID `json:"id"`
	Organization uuid.UUID `json:"organization"`
	Destination  uuid.UUID `json:"destination"`
	Wants        wants     `json:"declaration"`
	Active       bool      `json:"active"`
	Switches     int       `json:"switches,omitzero"` // see subscription.State
}

// debounceKey names a debounce window. Rows of versions before have other keys, which are never looked up.
type debounceKey string

// newDebounceKey names the window of events about one subject, of one type, source and feed, on their way to one
// destination. It is a digest: an index of Postgres takes no long texts.
func newDebounceKey(destination uuid.UUID, p publication.Published) debounceKey {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q",
		[]string{destination.String(), p.Type, p.Subject, p.Source, p.FeedType, p.FeedID.String()}))
	return debounceKey(hex.EncodeToString(sum[:]))
}

// String returns the text that it is stored by.
func (k debounceKey) String() string { return string(k) }

func parseDebounceKey(text string) (debounceKey, error) { return debounceKey(text), nil }

type debounced struct {
	Closes   time.Time `json:"closes"`
	Delivery uuid.UUID `json:"delivery"` // the newest in it
}

// New makes empty routes, which are saved with the state of a process manager.
func New(state *eventstore.ProcessState) *Routes {
	r := &Routes{
		Feeds:         eventstore.NewSavedTable[uuid.UUID, Feed](state, "feed", uuid.Parse),
		Targets:       eventstore.NewSavedTable[uuid.UUID, Target](state, "target", uuid.Parse),
		Subscriptions: eventstore.NewSavedTable[uuid.UUID, Subscription](state, "subscription", uuid.Parse),
		debounces:     eventstore.NewSavedTable[debounceKey, debounced](state, "window", parseDebounceKey),
		byOrg:         map[uuid.UUID]map[uuid.UUID]*Subscription{},
	}
	r.Subscriptions.Indexed = r.index
	return r
}

// Kinds are the rows of Routes that follow from events that are never removed.
var Kinds = []string{"feed", "target", "subscription"}

// Events are the events that Apply takes.
func Events() eventstore.Filter {
	return eventstore.Categories(feed.Aggregate.Category, destination.Aggregate.Category,
		subscription.Aggregate.Category)
}

// Apply folds an event of a feed, destination or subscription.
func (r *Routes) Apply(recorded *eventstore.Recorded) error {
	id := recorded.StreamID()
	switch recorded.Category() {
	case feed.Aggregate.Category:
		event, err := feed.Events.Decode(recorded)
		if err != nil {
			return err
		}
		r.applyFeed(id, event)
	case destination.Aggregate.Category:
		event, err := destination.Events.Decode(recorded)
		if err != nil {
			return err
		}
		r.applyDestination(id, event)
	case subscription.Aggregate.Category:
		event, err := subscription.Events.Decode(recorded)
		if err != nil {
			return err
		}
		r.applySubscription(id, event)
	default:
		return fmt.Errorf("routes can't fold %s", recorded.Stream)
	}
	return nil
}

func (r *Routes) applyFeed(id uuid.UUID, event feed.Event) {
	next := Feed{}
	if known := r.Feeds.Get(id); known != nil {
		next = *known
	}
	switch e := event.(type) {
	case feed.Created:
		next = Feed{Type: "event", Owner: e.Organization}
	case feed.Registered:
		next = Feed{Type: e.FeedType, Owner: e.Organization}
	case feed.Shared:
		next.Shared = append(slices.Clone(next.Shared), e.With)
	case feed.Unshared:
		next.Shared = slices.DeleteFunc(slices.Clone(next.Shared), func(o uuid.UUID) bool { return o == e.With })
	case feed.Deleted:
		r.Feeds.Set(id, nil)
		return
	case feed.Revised, feed.Enabled, feed.Disabled, feed.SourceAttached, feed.SourceDetached:
		return // no change of its readers
	}
	r.Feeds.Set(id, &next)
}

func (r *Routes) applyDestination(id uuid.UUID, event destination.Event) {
	next := Target{}
	if known := r.Targets.Get(id); known != nil {
		next = *known
	}
	switch e := event.(type) {
	case destination.Created:
		next = Target{Organization: e.Organization, Enabled: true, DebounceSeconds: e.DebounceWindowSeconds}
	case destination.Revised:
		next.DebounceSeconds = e.DebounceWindowSeconds
	case destination.Enabled:
		next.Enabled = true
	case destination.Disabled, destination.AutoDisabled:
		next.Enabled = false
	case destination.Deleted:
		r.Targets.Set(id, nil)
		return
	case destination.SecretMinted, destination.SecretRotated, destination.SecretExpired:
		return // no change of its events
	}
	r.Targets.Set(id, &next)
}

func (r *Routes) applySubscription(id uuid.UUID, event subscription.Event) {
	next := Subscription{ID: id, Wants: wanted(subscription.Settings{})}
	if known := r.Subscriptions.Get(id); known != nil {
		next = *known
	}
	switch e := event.(type) {
	case subscription.Created:
		next = Subscription{
			ID:           id,
			Organization: e.Organization,
			Destination:  e.Destination,
			Wants:        wanted(e.Settings),
			Active:       true,
		}
	case subscription.Revised:
		next.Wants = wanted(e.Settings)
	case subscription.Activated:
		next.Active = true
		next.Switches++
	case subscription.Deactivated:
		next.Active = false
		next.Switches++
	case subscription.Deleted:
		r.Subscriptions.Set(id, nil)
		return
	}
	r.Subscriptions.Set(id, &next)
}

// index keeps the active subscriptions by organization.
func (r *Routes) index(id uuid.UUID, before, after *Subscription) {
	if before != nil {
		delete(r.byOrg[before.Organization], id)
	}
	if after == nil || !after.Active {
		return
	}
	if r.byOrg[after.Organization] == nil {
		r.byOrg[after.Organization] = map[uuid.UUID]*Subscription{}
	}
	r.byOrg[after.Organization][id] = after
}

// Enabled reports whether a destination exists and gets deliveries.
func (r *Routes) Enabled(id uuid.UUID) bool {
	target := r.Targets.Get(id)
	return target != nil && target.Enabled
}

// Visible lists the organizations that can see an event: the owner of its feed and those it is shared with; without
// a feed, its own organization.
func (r *Routes) Visible(p publication.Published) []uuid.UUID {
	if p.FeedID == uuid.Nil {
		return []uuid.UUID{p.Organization}
	}
	if f := r.Feeds.Get(p.FeedID); f == nil || f.Type != p.FeedType {
		return nil
	}
	return r.Readers(p.FeedID)
}

// Readers lists the organizations that can see a feed; none if it does not exist.
func (r *Routes) Readers(feed uuid.UUID) []uuid.UUID {
	f := r.Feeds.Get(feed)
	if f == nil {
		return nil
	}
	return append([]uuid.UUID{f.Owner}, f.Shared...)
}

// Publisher returns the organization of a visible event: the owner of its feed; without a feed, its own.
func (r *Routes) Publisher(p publication.Published) uuid.UUID {
	if p.FeedID == uuid.Nil {
		return p.Organization
	}
	return r.Feeds.Get(p.FeedID).Owner
}

// Active returns the active subscriptions of an organization by id.
func (r *Routes) Active(organization uuid.UUID) map[uuid.UUID]*Subscription {
	return r.byOrg[organization]
}

// Sees reports whether an organization can see a feed.
func (r *Routes) Sees(organization, feed uuid.UUID) bool {
	f := r.Feeds.Get(feed)
	return f != nil && (f.Owner == organization || slices.Contains(f.Shared, organization))
}

// Dispatch lists the deliveries of an event, one for each enabled destination with a matching active subscription,
// sorted by destination. at is when the event was recorded, the clock of the debounce windows.
func (r *Routes) Dispatch(event uuid.UUID, p publication.Published, at time.Time) []dispatch.Scheduled {
	var scheduled []dispatch.Scheduled
	for _, organization := range r.Visible(p) {
		first := len(scheduled)
		for _, sub := range r.byOrg[organization] {
			target := r.Targets.Get(sub.Destination)
			if target == nil || !target.Enabled || !sub.Wants.matches(p.Type, p.FeedType, p.FeedID) {
				continue
			}
			scheduled = append(scheduled, dispatch.Scheduled{
				Destination: sub.Destination, Organization: organization, Subscriptions: []uuid.UUID{sub.ID},
			})
		}
		scheduled = append(scheduled[:first], merge(scheduled[first:])...)
	}
	for i := range scheduled {
		r.debounce(&scheduled[i], event, p, at)
	}
	return scheduled
}

// merge makes one delivery of several subscriptions of the same destination that matched.
func merge(scheduled []dispatch.Scheduled) []dispatch.Scheduled {
	slices.SortFunc(scheduled, func(a, b dispatch.Scheduled) int {
		return cmp.Or(bytes.Compare(a.Destination[:], b.Destination[:]),
			bytes.Compare(a.Subscriptions[0][:], b.Subscriptions[0][:]))
	})
	merged := scheduled[:0]
	for _, s := range scheduled {
		if n := len(merged); n > 0 && merged[n-1].Destination == s.Destination {
			merged[n-1].Subscriptions = append(merged[n-1].Subscriptions, s.Subscriptions...)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// debounce puts a delivery into its window: it waits until that closes, and replaces the one that waited there
// before. Events without a subject are about nothing that they could be merged by.
func (r *Routes) debounce(s *dispatch.Scheduled, event uuid.UUID, p publication.Published, at time.Time) {
	seconds := r.Targets.Get(s.Destination).DebounceSeconds
	if seconds == 0 || p.Subject == "" {
		return
	}
	key := newDebounceKey(s.Destination, p)
	w := debounced{Closes: at.Add(time.Duration(seconds) * time.Second)}
	if open := r.debounces.Get(key); open != nil && at.Before(open.Closes) {
		w = *open
	}
	s.NotBefore, s.Supersedes = w.Closes, w.Delivery
	w.Delivery = dispatch.DeliveryID(event, s.Destination)
	r.debounces.Set(key, &w)
}

// DropClosedDebounces forgets the windows that closed before a time. It is that of the newest event, so that an older
// one never finds its window missing.
func (r *Routes) DropClosedDebounces(before time.Time) {
	for key, w := range r.debounces.All() {
		if w.Closes.Before(before) {
			r.debounces.Set(key, nil)
		}
	}
}
