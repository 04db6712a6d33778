package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/console/live"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	deliveriesmodel "carillon/projections/deliveries"
	"carillon/query"
)

const (
	gather   = 500 * time.Millisecond // what happens within it is read and told together
	mostRows = 100                    // that are told at one time; of more, pages hear how many
	mostHeld = 100_000                // deliveries whose news wait for the read model; of more, pages are told to look anew
)

// errBehind ends the source, which begins anew once the read model has come along.
var errBehind = errors.New("the read model of deliveries is far behind: open pages are told to look anew when it has come along")

const livePath = "/live"

func (c *Console) liveRoutes(r chi.Router) { r.Get(livePath, c.follow) }

// Topics of messages.
func ofOrganization(id uuid.UUID) string { return "organization/" + id.String() }
func ofDestination(id uuid.UUID) string  { return "destination/" + id.String() }
func ofDelivery(id uuid.UUID) string     { return "delivery/" + id.String() }

// Run serves live parts, and does work on many deliveries, until the context ends. Without it, pages stand still.
func (c *Console) Run(ctx context.Context) {
	c.workers.open(ctx)
	defer c.workers.running.Wait()
	c.live.Run(ctx, live.Work{
		Source: c.happenings,
		Ended: func(ctx context.Context, sessions []string) ([]string, error) {
			return c.Sessions.Ended(ctx, sessions, c.Now())
		},
		Failed: func(err error) { c.Log.WarnContext(ctx, "live parts of the console", "error", err) },
	})
}

// follow answers GET /console/live: a stream of what happens to what a page shows. of names it.
func (c *Console) follow(w http.ResponseWriter, r *http.Request) {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	asked, err := c.asked(v)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	page, err := c.live.Open(asked)
	switch {
	case errors.Is(err, live.ErrClosed):
		w.WriteHeader(http.StatusNoContent) // which browsers take for the end
		return
	case err != nil:
		c.fail(w, r, &wire.Failure{Kind: wire.RateLimited, RetryAfter: time.Minute, Issue: tooManyPages, Cause: err})
		return
	}
	defer page.Close()
	_ = page.Serve(r.Context(), w) // whoever has gone away has no use for an error
}

// asked reads what a page wants to follow, which is of the visitor's own organization.
func (c *Console) asked(v *visit) (asked live.Asked, err error) {
	values := v.URL.Query()
	asked = live.Asked{Session: v.sessionName, LastID: v.Header.Get("Last-Event-ID")}
	if v.session.Role == ForOrganization {
		asked.Group = v.session.Organization.String()
	}
	if asked.LastID == "" {
		asked.LastID = values.Get("last")
	}
	id, isID := wire.ParseUUID(values.Get("id"))
	of := values.Get("of")
	switch {
	case of == liveDelivery && isID:
		_, err = c.Queries.Delivery(v.Context(), v.organization(), id, c.Now())
	case of == liveDestination && isID:
		_, err = c.Queries.Destination(v.Context(), v.organization(), id.String(), c.Now())
	case of == liveDeliveries:
	case of == liveWork && isID:
		_, err = c.Works.Find(v.Context(), v.organization(), id)
	default:
		err = query.ErrNotFound
	}
	asked.Topics = v.liveTopics(of, id)
	if err != nil {
		return asked, err
	}
	form := formOf(values)
	filter, err := form.read()
	if err != nil {
		return asked, err
	}
	asked.Filter = func(m live.Message) string {
		d, is := m.About.(query.Delivery)
		if is && !matches(filter, d) {
			return "elsewhere" // it may be on the page all the same, as it was before
		}
		return m.Event
	}
	return asked, nil
}

// What a page may follow.
const (
	liveDelivery    = "delivery"
	liveDestination = "destination"
	liveDeliveries  = "deliveries"
	liveWork        = "work"
)

// liveTopics are those of what a page follows.
func (v *visit) liveTopics(of string, id uuid.UUID) []string {
	switch of {
	case liveDelivery:
		return []string{ofDelivery(id)}
	case liveDestination:
		return []string{ofDestination(id)}
	case liveDeliveries:
		return []string{ofOrganization(v.organization())}
	case liveWork:
		return []string{ofWork(v.organization(), id)}
	}
	return nil
}

// liveAt is the address of what happens to something from now on, as a page's filter has it. It is made before what the page
// shows is read, so that nothing is missing in between.
func (c *Console) liveAt(v *visit, of string, id uuid.UUID, filter url.Values) string {
	values := url.Values{"of": {of}}
	if mark := c.live.Mark(v.liveTopics(of, id)...); mark != "" {
		values.Set("last", mark)
	}
	if id != uuid.Nil {
		values.Set("id", id.String())
	}
	for _, name := range []string{"status", "type", "feed", "since", "until"} {
		if value := filter.Get(name); value != "" {
			values.Set(name, value)
		}
	}
	return v.to("/live?") + values.Encode()
}

// matches tells whether a delivery is one of those that a list shows.
func matches(f query.DeliveryFilter, d query.Delivery) bool {
	return (f.Status == "" || f.Status == d.Status) &&
		(f.Type == "" || subscription.MatchesType(f.Type, d.Event.Type)) &&
		(f.Since.IsZero() || !d.CreatedAt.Before(f.Since)) && (f.Until.IsZero() || !d.CreatedAt.After(f.Until)) &&
		(f.Feed == uuid.Nil || f.Feed == d.Event.FeedID)
}

// touched is a delivery that something has happened to.
type touched struct{ id, destination, organization uuid.UUID }

func (d touched) topics() []string {
	return []string{ofOrganization(d.organization), ofDestination(d.destination), ofDelivery(d.id)}
}

// happenings is the source of live parts: it reads along with the event store, and tells what has happened to deliveries
// once that can be read. What nobody looks at is not read. One statement a batch serves all pages.
func (c *Console) happenings(ctx context.Context, ready func()) error {
	head, err := c.Events.Head(ctx)
	if err != nil {
		return err
	}
	// What is not told from here on is found by the pages that look anew now.
	if err := c.Settle(ctx, deliveriesmodel.ReadModel); err != nil {
		return err
	}
	ready()
	ctx, cancel := context.WithCancelCause(ctx)
	var (
		mu       sync.Mutex
		batch    []touched
		position eventstore.Position
		wake     = make(chan struct{}, 1)
	)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel(nil)
	reading.Go(func() {
		for m := range eventstore.Follow(ctx, c.Events, head, eventstore.Categories(dispatch.Aggregate.Category, delivery.Aggregate.Category), c.Log) {
			if m.Event == nil {
				continue
			}
			happened, err := touchedBy(m.Event)
			if err != nil {
				cancel(err)
				return
			}
			if len(happened) == 0 {
				continue
			}
			mu.Lock()
			batch, position = append(batch, happened...), m.Position
			held := len(batch)
			mu.Unlock()
			if held > mostHeld {
				cancel(errBehind)
				return
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		cancel(errBehind) // the store is another one by now, unless the context has ended
	})
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wake:
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(gather):
		}
		mu.Lock()
		now, to := batch, position
		batch = nil
		mu.Unlock()
		if !c.Await(ctx, to, deliveriesmodel.ReadModel.Name) {
			return context.Cause(ctx)
		}
		// Only now, because a page that was read meanwhile may not show what happened before.
		if now = slices.DeleteFunc(now, func(d touched) bool { return !c.live.Wanted(d.topics()...) }); len(now) == 0 {
			continue
		}
		if err := c.tell(ctx, now); err != nil {
			return err
		}
	}
}

// touchedBy lists the deliveries that an event is about.
func touchedBy(recorded *eventstore.Recorded) (all []touched, err error) {
	if recorded.Category() == dispatch.Aggregate.Category {
		event, err := dispatch.Events.Decode(recorded)
		if err != nil {
			return nil, err
		}
		switch e := event.(type) {
		case dispatch.DeliveriesScheduled:
			for _, d := range e.Deliveries {
				all = append(all, touched{dispatch.DeliveryID(e.Publication, d.Destination), d.Destination, d.Organization})
			}
		}
		return all, nil
	}
	event, err := delivery.Events.Decode(recorded)
	if err != nil {
		return nil, err
	}
	one := touched{id: recorded.StreamID()}
	switch e := event.(type) {
	case delivery.Attempted:
		one.destination, one.organization = e.Destination, e.Organization
	case delivery.ReplayRequested:
		one.destination, one.organization = e.Destination, e.Organization
	case delivery.Reinstated:
		one.destination, one.organization = e.Destination, e.Organization
	case delivery.Superseded, delivery.Discarded, delivery.ReplayDropped: // which don't say whose they were
		metadata, err := eventstore.ParseMetadata(recorded.Metadata)
		if err != nil {
			return nil, err
		}
		one.organization = metadata.Organization
	}
	return []touched{one}, nil
}

// tell reads the rows of what has happened, and publishes them. Of more than a page can take in, it tells the number.
func (c *Console) tell(ctx context.Context, happened []touched) error {
	topics, bases := map[uuid.UUID][]string{}, map[uuid.UUID]string{}
	ids := make([]uuid.UUID, 0, len(happened))
	for _, d := range happened {
		if topics[d.id] == nil {
			ids = append(ids, d.id)
		}
		topics[d.id], bases[d.id] = d.topics(), c.baseOf(d.organization)
	}
	for _, d := range happened[:max(0, len(happened)-mostRows)] {
		c.live.Publish(live.Message{Topics: []string{ofDelivery(d.id)}, Event: "changed"})
	}
	if left := len(ids) - mostRows; left > 0 {
		for _, organization := range organizationsOf(happened) {
			c.live.Publish(live.Message{Topics: []string{organization}, Event: live.Stale})
		}
		ids = ids[left:]
	}
	now := c.Now().UTC()
	rows, err := c.Queries.DeliveriesByID(ctx, ids, now)
	if err != nil {
		return err
	}
	names, err := c.namesOf(ctx, happened, rows)
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b query.Delivery) int { return a.CreatedAt.Compare(b.CreatedAt) }) // the newest comes last, and on top
	for _, d := range rows {
		// Lists of all destinations name each one; those of one don't.
		for _, row := range []struct {
			topics []string
			part   map[string]any
		}{
			{topics[d.ID][:1], dict("Base", bases[d.ID], "Row", d, "All", true, "To", names[d.Destination])},
			{topics[d.ID][1:], dict("Base", bases[d.ID], "Row", d)},
		} {
			data, err := c.rowMessage(d.ID, row.part)
			if err != nil {
				return err
			}
			c.live.Publish(live.Message{Topics: row.topics, Event: "row", Data: data, About: d})
		}
	}
	return nil
}

// namesOf are the names of the destinations of deliveries, by the organizations that those are of.
func (c *Console) namesOf(ctx context.Context, happened []touched, rows []query.Delivery) (map[uuid.UUID]string, error) {
	names := map[uuid.UUID]string{}
	for _, organization := range organizationsIn(happened) {
		if !c.live.Wanted(ofOrganization(organization)) {
			continue
		}
		found, err := c.Queries.DestinationNames(ctx, organization, destinationsOf(rows))
		if err != nil {
			return nil, err
		}
		maps.Copy(names, found)
	}
	return names, nil
}

func organizationsIn(happened []touched) (ids []uuid.UUID) {
	for _, d := range happened {
		if !slices.Contains(ids, d.organization) {
			ids = append(ids, d.organization)
		}
	}
	return ids
}

func organizationsOf(happened []touched) (topics []string) {
	for _, d := range happened {
		for _, topic := range []string{ofOrganization(d.organization), ofDestination(d.destination)} {
			if !slices.Contains(topics, topic) {
				topics = append(topics, topic)
			}
		}
	}
	return topics
}

// rowMessage is a row of the list of deliveries, as pages have it.
func (c *Console) rowMessage(id uuid.UUID, part map[string]any) (string, error) {
	var row bytes.Buffer
	if err := c.pages.write(&row, "deliveries", "delivery-row", part); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]string{"id": id.String(), "html": row.String()})
	return string(data), err
}

// sessionName is how the hub knows a session: by its hash, which can be told apart and not be used.
func sessionName(hash []byte) string { return hex.EncodeToString(hash) }

// ofWork is about work that an organization has asked for.
func ofWork(organization, id uuid.UUID) string {
	return "work/" + organization.String() + "/" + id.String()
}
