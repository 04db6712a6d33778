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
	batchWindow = 500 * time.Millisecond // changes within it are read and sent together
	// Rows sent at a time. Beyond it, pages get the number only.
	maxRows = 100
	// Changed deliveries that wait for the read model. Beyond it, pages are asked to reload.
	maxHeldChanges = 100_000
)

// errBehind ends the source, which starts again once the read model has caught up.
var errBehind = errors.New(
	"read model of deliveries far behind; open pages reload once it has caught up")

const livePath = "/live"

func (c *Console) liveRoutes(r chi.Router) { r.Get(livePath, c.follow) }

// Topics of messages.
func ofOrganization(id uuid.UUID) string { return "organization/" + id.String() }
func ofDestination(id uuid.UUID) string  { return "destination/" + id.String() }
func ofDelivery(id uuid.UUID) string     { return "delivery/" + id.String() }

// Run serves live updates, and works on requests for many deliveries, until the context ends. Without it, pages do
// not update.
func (c *Console) Run(ctx context.Context) {
	c.workers.open(ctx)
	defer c.workers.running.Wait()
	c.live.Run(ctx, live.Work{
		Source: c.happenings,
		Ended: func(ctx context.Context, sessions []string) ([]string, error) {
			return c.Sessions.Ended(ctx, sessions, c.Now())
		},
		Failed: func(err error) { c.Log.WarnContext(ctx, "console live updates failed", "error", err) },
	})
}

// follow answers GET /console/live: a stream of changes to the contents of a page, which the parameter of names.
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
		w.WriteHeader(http.StatusNoContent) // ends the stream for browsers
		return
	case err != nil:
		c.fail(w, r, &wire.Failure{
			Kind:       wire.RateLimited,
			RetryAfter: time.Minute,
			Issue:      tooManyPages,
			Cause:      err,
		})
		return
	}
	defer page.Close()
	_ = page.Serve(r.Context(), w) // the visitor is gone
}

// asked parses the parameter of, which must name something of the visitor's organization.
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
			return "elsewhere" // the page may show it nonetheless, from before
		}
		return m.Event
	}
	return asked, nil
}

// Subjects that a page may follow.
const (
	liveDelivery    = "delivery"
	liveDestination = "destination"
	liveDeliveries  = "deliveries"
	liveWork        = "work"
)

// liveTopics returns the topics of a page's subject.
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

// liveAt returns the address of changes from now on, restricted by a page's filter. It must be called before the
// contents of the page are read, so that no change is missed.
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

// matches reports whether a delivery belongs to a list.
func matches(f query.DeliveryFilter, d query.Delivery) bool {
	return (f.Status == "" || f.Status == d.Status) &&
		(f.Type == "" || subscription.MatchesType(f.Type, d.Event.Type)) &&
		(f.Since.IsZero() || !d.CreatedAt.Before(f.Since)) && (f.Until.IsZero() || !d.CreatedAt.After(f.Until)) &&
		(f.Feed == uuid.Nil || f.Feed == d.Event.FeedID)
}

// changedDelivery is a changed delivery.
type changedDelivery struct{ id, destination, organization uuid.UUID }

func (d changedDelivery) topics() []string {
	return []string{ofOrganization(d.organization), ofDestination(d.destination), ofDelivery(d.id)}
}

// happenings is the source of live updates: it follows the event store, and sends changes of deliveries once the read
// model shows them. It reads only what a page shows, with one statement a batch for all pages.
func (c *Console) happenings(ctx context.Context, ready func()) error {
	head, err := c.Events.Head(ctx)
	if err != nil {
		return err
	}
	// Later changes are sent; a page that is loaded now shows earlier ones.
	if err := c.Settle(ctx, deliveriesmodel.ReadModel); err != nil {
		return err
	}
	ready()
	ctx, cancel := context.WithCancelCause(ctx)
	var (
		mu       sync.Mutex
		batch    []changedDelivery
		position eventstore.Position
		wake     = make(chan struct{}, 1)
	)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel(nil)
	reading.Go(func() {
		for m := range eventstore.Follow(ctx, c.Events, head, eventstore.Categories(dispatch.Aggregate.Category,
			delivery.Aggregate.Category), c.Log) {
			if m.Event == nil {
				continue
			}
			happened, err := changedBy(m.Event)
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
			if held > maxHeldChanges {
				cancel(errBehind)
				return
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		cancel(errBehind) // the store was replaced, unless the context has ended
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
		case <-time.After(batchWindow):
		}
		mu.Lock()
		now, to := batch, position
		batch = nil
		mu.Unlock()
		if !c.Await(ctx, to, deliveriesmodel.ReadModel.Name) {
			return context.Cause(ctx)
		}
		// Only now, because a page that was read in the meantime may not show earlier changes.
		if now = slices.DeleteFunc(now, func(d changedDelivery) bool {
			return !c.live.Wanted(d.topics()...)
		}); len(now) == 0 {
			continue
		}
		if err := c.tell(ctx, now); err != nil {
			return err
		}
	}
}

// changedBy lists the deliveries that an event changes.
func changedBy(recorded *eventstore.Recorded) (all []changedDelivery, err error) {
	if recorded.Category() == dispatch.Aggregate.Category {
		event, err := dispatch.Events.Decode(recorded)
		if err != nil {
			return nil, err
		}
		switch e := event.(type) {
		case dispatch.DeliveriesScheduled:
			for _, d := range e.Deliveries {
				all = append(all, changedDelivery{dispatch.DeliveryID(e.Publication, d.Destination), d.Destination, d.Organization})
			}
		}
		return all, nil
	}
	event, err := delivery.Events.Decode(recorded)
	if err != nil {
		return nil, err
	}
	one := changedDelivery{id: recorded.StreamID()}
	switch e := event.(type) {
	case delivery.Attempted:
		one.destination, one.organization = e.Destination, e.Organization
	case delivery.ReplayRequested:
		one.destination, one.organization = e.Destination, e.Organization
	case delivery.Reinstated:
		one.destination, one.organization = e.Destination, e.Organization
	case delivery.Superseded, delivery.Discarded, delivery.ReplayDropped: // these events don't name the destination
		metadata, err := eventstore.ParseMetadata(recorded.Metadata)
		if err != nil {
			return nil, err
		}
		one.organization = metadata.Organization
	}
	return []changedDelivery{one}, nil
}

// tell reads the rows of changed deliveries, and publishes them. Beyond maxRows it publishes their number.
func (c *Console) tell(ctx context.Context, happened []changedDelivery) error {
	topics, bases := map[uuid.UUID][]string{}, map[uuid.UUID]string{}
	ids := make([]uuid.UUID, 0, len(happened))
	for _, d := range happened {
		if topics[d.id] == nil {
			ids = append(ids, d.id)
		}
		topics[d.id], bases[d.id] = d.topics(), c.baseOf(d.organization)
	}
	for _, d := range happened[:max(0, len(happened)-maxRows)] {
		c.live.Publish(live.Message{Topics: []string{ofDelivery(d.id)}, Event: "changed"})
	}
	if left := len(ids) - maxRows; left > 0 {
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
	// The newest is sent last, and ends up on top.
	slices.SortFunc(rows, func(a, b query.Delivery) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, d := range rows {
		// Lists of all destinations name the destination in each row.
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
			c.live.Publish(live.Message{
				Topics: row.topics,
				Event:  "row",
				Data:   data,
				About:  d,
			})
		}
	}
	return nil
}

// namesOf returns the names of the destinations of deliveries, by organization.
func (c *Console) namesOf(ctx context.Context, happened []changedDelivery,
	rows []query.Delivery) (map[uuid.UUID]string, error) {
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

func organizationsIn(happened []changedDelivery) (ids []uuid.UUID) {
	for _, d := range happened {
		if !slices.Contains(ids, d.organization) {
			ids = append(ids, d.organization)
		}
	}
	return ids
}

func organizationsOf(happened []changedDelivery) (topics []string) {
	for _, d := range happened {
		for _, topic := range []string{ofOrganization(d.organization), ofDestination(d.destination)} {
			if !slices.Contains(topics, topic) {
				topics = append(topics, topic)
			}
		}
	}
	return topics
}

// rowMessage renders a row of a list of deliveries.
func (c *Console) rowMessage(id uuid.UUID, part map[string]any) (string, error) {
	var row bytes.Buffer
	if err := c.pages.write(&row, "deliveries", "delivery-row", part); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]string{"id": id.String(), "html": row.String()})
	return string(data), err
}

// sessionName returns the name of a session in the hub: its hash, which identifies it and can't be used to sign in.
func sessionName(hash []byte) string { return hex.EncodeToString(hash) }

// ofWork is the topic of an organization's work.
func ofWork(organization, id uuid.UUID) string {
	return "work/" + organization.String() + "/" + id.String()
}
