package console

import (
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/query"
)

func (c *Console) eventRoutes(r chi.Router) {
	r.Get("/events", c.page(c.listEvents))
	r.Get("/events/{id}", c.page(c.showEvent))
}

// eventList is a page of what was published.
type eventList struct {
	Events []query.PublishedEvent
	Types  []string
	Feeds  []query.FeedName
	Filter eventForm
	Asked  bool   // the filter narrows
	Later  bool   // the page is not the first
	First  string // the address of the first page
	Next   string // of the next page; "": there is none
	Now    time.Time
}

// eventForm is the filter, as it was typed.
type eventForm struct {
	Name, Type, Feed, Since, Until string
}

// shownFeeds is how many feeds one can choose from; others are named by their id, in the address.
const shownFeeds = 200

// listEvents answers GET /console/events.
func (c *Console) listEvents(v *visit) (screen, error) {
	values := v.URL.Query()
	list := eventList{Now: c.Now().UTC(), Later: values.Get("before") != "", Filter: eventForm{
		Name: strings.TrimSpace(values.Get("q")), Type: values.Get("type"), Feed: values.Get("feed"), Since: values.Get("since"), Until: values.Get("until"),
	}}
	list.Asked = list.Filter != eventForm{}
	filter, err := c.readEvents(list.Filter, values.Get("before"))
	if err != nil {
		return screen{}, err
	}
	for _, t := range c.Commands.Catalog.Types() {
		list.Types = append(list.Types, t.Name)
	}
	if list.Feeds, err = c.Queries.FeedNames(v.Context(), v.organization(), shownFeeds); err != nil {
		return screen{}, err
	}
	if list.Events, err = c.Queries.PublishedEvents(v.Context(), v.organization(), filter); err != nil {
		return screen{}, err
	}
	list.First = elsewhere(v.URL, "before", "")
	if len(list.Events) > pageSize {
		list.Events = list.Events[:pageSize]
		last := list.Events[pageSize-1]
		list.Next = elsewhere(v.URL, "before", markOf(last.Time, last.ID))
	}
	return screen{Title: "Events", Template: "events", Data: list}, nil
}

func (c *Console) readEvents(f eventForm, before string) (filter query.EventFilter, err error) {
	filter = query.EventFilter{Name: f.Name, Limit: pageSize + 1}
	if err := searchable("q", f.Name); err != nil {
		return filter, err
	}
	if f.Type != "" {
		if !subscription.ValidPattern(f.Type) {
			return filter, wire.Fail(wire.BadQuery, "type", "must be an exact type, a trailing wildcard such as news.*, or *")
		}
		filter.Types = []string{}
		for _, t := range c.Commands.Catalog.Types() {
			if subscription.MatchesType(f.Type, t.Name) {
				filter.Types = append(filter.Types, t.Name)
			}
		}
		if len(filter.Types) == 0 { // of a version that knew other types
			filter.Types = []string{f.Type}
		}
	}
	if f.Feed != "" {
		id, ok := wire.ParseUUID(f.Feed)
		if !ok {
			return filter, wire.Fail(wire.BadQuery, "feed", "must be the id of a feed")
		}
		filter.Feed = id
	}
	if filter.Since, err = readTime("since", f.Since); err != nil {
		return filter, err
	}
	if filter.Until, err = readTime("until", f.Until); err != nil {
		return filter, err
	}
	at, id, err := readMark("before", before)
	filter.Before = query.EventMark{Time: at, ID: id}
	return filter, err
}

// markOf writes where in a list one stands, for an address.
func markOf(at time.Time, id uuid.UUID) string {
	return at.UTC().Format(time.RFC3339Nano) + "~" + id.String()
}

func readMark(field, text string) (at time.Time, id uuid.UUID, err error) {
	if text == "" {
		return at, id, nil
	}
	when, which, _ := strings.Cut(text, "~")
	at, err = time.Parse(time.RFC3339Nano, when)
	id, ok := wire.ParseUUID(which)
	if err != nil || !ok {
		return at, id, wire.Fail(wire.BadQuery, field, "must be as a link of the list has it")
	}
	return at, id, nil
}

// elsewhere is an address with one parameter changed; an empty value takes it out.
func elsewhere(at *url.URL, name, value string) string {
	values := at.Query()
	values.Del("done")
	if values.Set(name, value); value == "" {
		values.Del(name)
	}
	if len(values) == 0 {
		return at.Path
	}
	return at.Path + "?" + values.Encode()
}

// eventView is an event, and to whom it went.
type eventView struct {
	query.PublishedEvent

	Body       string
	Recipients []recipient
	Got, All   int // destinations
	Who        string
	Paging     paging
	Now        time.Time
}

// recipient is a destination that got an event, or why it did not.
type recipient struct {
	query.Recipient

	Delivery *query.Delivery // nil: there is none
	Why      string          // see reasons; "" where it got it
	At       time.Time       // of what Why speaks of
}

// Why a destination did not get an event. The sentences are in the template.
const (
	becauseLater      = "later"      // the destination was made later
	becauseDisabled   = "disabled"   // it was disabled then
	becauseNoAccess   = "no-access"  // the feed was shared with the organization later
	becauseGone       = "gone"       // what was sent to it went with it
	becauseChanged    = "changed"    // a subscription matches it that was made, or changed, later
	becauseInactive   = "inactive"   // a subscription that matches is switched off
	becauseNoMatch    = "no-match"   // it has subscriptions, and none matches
	becauseNoneAtAll  = "none"       // it has no subscription
	becauseOnItsWay   = "on-its-way" // it was published just now
	becauseNotRunning = "unknown"    // nothing that is known kept it back
)

// showEvent answers GET /console/events/{id}.
func (c *Console) showEvent(v *visit) (screen, error) {
	id, err := v.id("id")
	if err != nil {
		return screen{}, err
	}
	shown := eventView{Now: c.Now().UTC(), Who: v.URL.Query().Get("who"), Paging: pagingOf(v.URL)}
	if shown.PublishedEvent, err = c.Queries.PublishedEvent(v.Context(), v.organization(), id); err != nil {
		return screen{}, err
	}
	shown.Body = pretty(shown.Data)
	return screen{Title: shown.Type, Template: "event", Data: &shown}, c.recipients(v, &shown)
}

// recipients says who got an event and who did not: how many, and of those on the page why not. Of all the others no more
// than whether they have a delivery is read, for an organization may have very many destinations.
func (c *Console) recipients(v *visit, shown *eventView) error {
	all, err := c.Queries.RecipientIDs(v.Context(), v.organization(), shown.PublishedAt)
	if err != nil {
		return err
	}
	deliveries := make([]uuid.UUID, len(all))
	for i, id := range all {
		deliveries[i] = dispatch.DeliveryID(shown.ID, id)
	}
	made, err := c.Queries.DeliveriesMade(v.Context(), deliveries) // ids of the organization's own destinations
	if err != nil {
		return err
	}
	shown.All, shown.Got = len(all), len(made)
	chosen := all
	switch shown.Who {
	case "":
	case "got", "not":
		chosen = nil
		for i, id := range all {
			if made[deliveries[i]] == (shown.Who == "got") {
				chosen = append(chosen, id)
			}
		}
	default:
		return wire.Fail(wire.BadQuery, "who", "must be got or not")
	}
	shown.Paging.Total = len(chosen)
	first := min(shown.Paging.offset(), len(chosen))
	shown.Recipients, err = c.recipientsOf(v, shown.PublishedEvent, chosen[first:min(first+pageSize, len(chosen))], shown.Now)
	return err
}

// recipientsOf says of some destinations of the organization whether they got an event, and why not.
func (c *Console) recipientsOf(v *visit, event query.PublishedEvent, ids []uuid.UUID, now time.Time) ([]recipient, error) {
	there, err := c.Queries.Recipients(v.Context(), v.organization(), ids, event.PublishedAt)
	if err != nil {
		return nil, err
	}
	deliveries := make([]uuid.UUID, len(there))
	for i, r := range there {
		deliveries[i] = dispatch.DeliveryID(event.ID, r.ID)
	}
	found, err := c.Queries.DeliveriesByID(v.Context(), deliveries, now)
	if err != nil {
		return nil, err
	}
	made := make(map[uuid.UUID]*query.Delivery, len(found))
	for i := range found {
		made[found[i].ID] = &found[i]
	}
	subscriptions, err := c.Queries.SubscriptionsOf(v.Context(), v.organization(), ids)
	if err != nil {
		return nil, err
	}
	all := make([]recipient, len(there))
	for i, r := range there {
		all[i] = recipient{Recipient: r}
		if all[i].Delivery = made[deliveries[i]]; all[i].Delivery != nil {
			continue
		}
		all[i].Why, all[i].At = whyNot(event, r, subscriptions[r.ID], now)
	}
	return all, nil
}

// settled is how long after its publication an event is said to be on its way.
const settled = time.Minute

// whyNot says why a destination has no delivery of an event, as far as it is known: of subscriptions, only how they are
// now and when they were changed last.
func whyNot(event query.PublishedEvent, to query.Recipient, subscriptions []query.Subscription, now time.Time) (why string, at time.Time) {
	switch {
	case to.Then == "":
		return becauseLater, to.CreatedAt
	case to.Then != "enabled":
		return becauseDisabled, time.Time{}
	case to.EndedAt != nil:
		return becauseGone, *to.EndedAt
	case event.SeenSince != nil && event.SeenSince.After(event.PublishedAt):
		return becauseNoAccess, *event.SeenSince
	case len(subscriptions) == 0:
		return becauseNoneAtAll, time.Time{}
	}
	why = becauseNoMatch
	for _, s := range subscriptions {
		switch {
		case !settingsOf(s).Matches(event.Type, event.FeedType, event.FeedID):
		case !s.Active:
			if why == becauseNoMatch {
				why, at = becauseInactive, s.UpdatedAt
			}
		case s.UpdatedAt.After(event.PublishedAt):
			why, at = becauseChanged, s.UpdatedAt
		case now.Sub(event.PublishedAt) < settled:
			return becauseOnItsWay, time.Time{}
		default:
			return becauseNotRunning, time.Time{}
		}
	}
	return why, at
}

func settingsOf(s query.Subscription) subscription.Settings {
	settings := subscription.Settings{EventTypes: s.EventTypes, ScopeKind: s.ScopeKind, FeedType: s.FeedType}
	for _, pin := range s.Feeds {
		settings.Feeds = append(settings.Feeds, subscription.Pin(pin))
	}
	return settings
}

// Only is the address of the page with those alone that got the event, or did not.
func (e eventView) Only(who string) string {
	at := e.Paging.address
	at.RawQuery = ""
	return elsewhere(&at, "who", who)
}

// Missed counts the destinations that have no delivery of it.
func (e eventView) Missed() int { return e.All - e.Got }
