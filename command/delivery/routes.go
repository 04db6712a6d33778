package delivery

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// Routes knows who receives what. It is folded from feed, destination and subscription events in their global order,
// so that at each published event it is exactly what it was when the event was published: dispatching again after a
// crash comes to the same result. It is not safe for concurrent use.
type Routes struct {
	feeds   map[uuid.UUID]*feedRoute
	targets map[uuid.UUID]*Target
	subs    map[uuid.UUID]*subRoute
	byOrg   map[uuid.UUID]map[uuid.UUID]*subRoute // active ones
	windows map[windowKey]window
	dirty   map[rowKey]struct{}
}

type feedRoute struct {
	Type   string      `json:"type"`
	Owner  uuid.UUID   `json:"owner"`
	Shared []uuid.UUID `json:"shared,omitempty"`
}

type subRoute struct {
	ID           uuid.UUID             `json:"id"`
	Organization uuid.UUID             `json:"organization"`
	Destination  uuid.UUID             `json:"destination"`
	Settings     subscription.Settings `json:"declaration"`
	Active       bool                  `json:"active"`
	Switches     int                   `json:"switches,omitzero"` // see subscription.State
}

// windowKey names a debounce window: events of one type and subject on their way to one destination.
type windowKey struct {
	destination   uuid.UUID
	kind, subject string
}

type window struct {
	closes   time.Time
	delivery uuid.UUID // the newest in it
}

// NewRoutes knows nobody.
func NewRoutes() *Routes {
	return &Routes{
		feeds: map[uuid.UUID]*feedRoute{}, targets: map[uuid.UUID]*Target{}, subs: map[uuid.UUID]*subRoute{},
		byOrg: map[uuid.UUID]map[uuid.UUID]*subRoute{}, windows: map[windowKey]window{}, dirty: map[rowKey]struct{}{},
	}
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
		r.setTarget(id, r.targets[id].after(id, event))
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
	next := feedRoute{}
	if known := r.feeds[id]; known != nil {
		next = *known
	}
	switch e := event.(type) {
	case feed.Created:
		next = feedRoute{Type: "event", Owner: e.Organization}
	case feed.Registered:
		next = feedRoute{Type: e.FeedType, Owner: e.Organization}
	case feed.Shared:
		next.Shared = append(slices.Clone(next.Shared), e.With)
	case feed.Unshared:
		next.Shared = slices.DeleteFunc(slices.Clone(next.Shared), func(o uuid.UUID) bool { return o == e.With })
	case feed.Deleted:
		r.setFeed(id, nil)
		return
	default:
		return // changes nothing about who may see it
	}
	r.setFeed(id, &next)
}

func (r *Routes) applySubscription(id uuid.UUID, event subscription.Event) {
	next := subRoute{ID: id}
	if known := r.subs[id]; known != nil {
		next = *known
	}
	switch e := event.(type) {
	case subscription.Created:
		next = subRoute{ID: id, Organization: e.Organization, Destination: e.Destination, Settings: e.Settings, Active: true}
	case subscription.Revised:
		next.Settings = e.Settings
	case subscription.Activated:
		next.Active = true
		next.Switches++
	case subscription.Deactivated:
		next.Active = false
		next.Switches++
	case subscription.Deleted:
		r.setSub(id, nil)
		return
	}
	r.setSub(id, &next)
}

func (r *Routes) setFeed(id uuid.UUID, f *feedRoute) {
	set(r.feeds, id, f)
	r.dirty[rowKey{kindFeed, id.String()}] = struct{}{}
}

func (r *Routes) setTarget(id uuid.UUID, t *Target) {
	set(r.targets, id, t)
	r.dirty[rowKey{kindTarget, id.String()}] = struct{}{}
}

func (r *Routes) setSub(id uuid.UUID, s *subRoute) {
	if old := r.subs[id]; old != nil {
		delete(r.byOrg[old.Organization], id)
	}
	set(r.subs, id, s)
	if s != nil && s.Active {
		if r.byOrg[s.Organization] == nil {
			r.byOrg[s.Organization] = map[uuid.UUID]*subRoute{}
		}
		r.byOrg[s.Organization][id] = s
	}
	r.dirty[rowKey{kindSub, id.String()}] = struct{}{}
}

func set[T any](m map[uuid.UUID]*T, id uuid.UUID, value *T) {
	if value == nil {
		delete(m, id)
		return
	}
	m[id] = value
}

// Target returns a destination that exists, or nil.
func (r *Routes) Target(id uuid.UUID) *Target { return r.targets[id] }

// Visible lists the organizations that can see an event: the owner of its feed and those it is shared with; where it
// has no feed, its own organization.
func (r *Routes) Visible(p publication.Published) []uuid.UUID {
	if p.FeedID == uuid.Nil {
		return []uuid.UUID{p.Organization}
	}
	f := r.feeds[p.FeedID]
	if f == nil || f.Type != p.FeedType {
		return nil
	}
	return append([]uuid.UUID{f.Owner}, f.Shared...)
}

// sees reports whether an organization can see a feed.
func (r *Routes) sees(organization, feed uuid.UUID) bool {
	f := r.feeds[feed]
	return f != nil && (f.Owner == organization || slices.Contains(f.Shared, organization))
}

// Dispatch lists the deliveries of an event, one for each enabled destination with a matching active subscription,
// sorted by destination. at is when the event was recorded, the clock of the debounce windows.
func (r *Routes) Dispatch(event uuid.UUID, p publication.Published, at time.Time) []dispatch.Scheduled {
	var scheduled []dispatch.Scheduled
	for _, organization := range r.Visible(p) {
		first := len(scheduled)
		for _, sub := range r.byOrg[organization] {
			target := r.targets[sub.Destination]
			if target == nil || !target.Enabled || !sub.Settings.Matches(p.Type, p.FeedType, p.FeedID) {
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
		return cmp.Or(bytes.Compare(a.Destination[:], b.Destination[:]), bytes.Compare(a.Subscriptions[0][:], b.Subscriptions[0][:]))
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

// debounce puts a delivery into the window of its destination, type and subject: it waits until the window closes, and
// replaces the one that waited there before.
func (r *Routes) debounce(s *dispatch.Scheduled, event uuid.UUID, p publication.Published, at time.Time) {
	seconds := r.targets[s.Destination].DebounceSeconds
	if seconds == 0 {
		return
	}
	key := windowKey{s.Destination, p.Type, p.Subject}
	w, open := r.windows[key]
	if !open || !at.Before(w.closes) {
		w = window{closes: at.Add(time.Duration(seconds) * time.Second)}
	}
	s.NotBefore, s.Supersedes = w.closes, w.delivery
	w.delivery = dispatch.DeliveryID(event, s.Destination)
	r.windows[key] = w
	r.dirty[rowKey{kindWindow, key.String()}] = struct{}{}
}

func (k windowKey) String() string {
	name, _ := json.Marshal([]string{k.destination.String(), k.kind, k.subject}) // strings always marshal
	return string(name)
}
