package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/item"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/items"
	"carillon/query"
)

func (a *API) itemRoutes(r routes) {
	r.read.Get("/feeds/events/{feedId}/items", wire.Feeds.Handle(a.listItems))
	r.read.Get("/feeds/events/{feedId}/items/{itemId}", wire.Feeds.Handle(a.getItem))
	r.read.Get("/v0/feeds/events/{feedId}/items", wire.Feeds.Handle(a.listLegacyItems))
	r.write.Post("/feeds/events/{feedId}/items/{itemId}/feedback", wire.Feeds.Handle(a.giveFeedback))
}

const (
	usualItems = 20
	mostItems  = 100
	day        = 24 * time.Hour
	daysBack   = 7
	daysAhead  = 30
)

var (
	occurrenceStatuses = []string{"scheduled", "cancelled", "postponed", "rescheduled", "completed"}
	itemSections       = []string{"source"}
)

// listItems answers GET /feeds/events/{feedId}/items.
func (a *API) listItems(r *http.Request) (wire.Reply, error) {
	q := wire.Feeds.ParseQuery(r, "limit", "offset", "since", "until", "status", "orderBy", "include")
	in := itemsQuery(q, a.Now())
	in.Source = withSource(q)
	return a.itemsReply(r, q, in)
}

// listLegacyItems answers GET /v0/feeds/events/{feedId}/items, the list in its first version, which shows another shape
// of the same items. It knows no include.
func (a *API) listLegacyItems(r *http.Request) (wire.Reply, error) {
	q := wire.Feeds.ParseQuery(r, "limit", "offset", "since", "until", "status", "orderBy")
	in := itemsQuery(q, a.Now())
	in.Legacy = true
	return a.itemsReply(r, q, in)
}

func (a *API) itemsReply(r *http.Request, q *wire.Query, in query.ItemsQuery) (wire.Reply, error) {
	feed, err := wire.PathUUID(r, "feedId", wire.NotFound)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	page, err := a.Queries.Items(r.Context(), callerOf(r).Organization, feed, in)
	return wire.OK(itemsPage{page, in.Limit, in.Offset}), wire.NotFoundError(err, "feed")
}

// withSource reports whether the source block is asked for.
func withSource(q *wire.Query) bool {
	return slices.Contains(q.Words("include", itemSections...), "source")
}

// itemsQuery reads what both versions of the list have in common.
func itemsQuery(q *wire.Query, now time.Time) query.ItemsQuery {
	in := query.ItemsQuery{Now: now.UTC(), OrderBy: query.OrderByOccurrence}
	in.Limit, in.Offset = q.Page(usualItems, mostItems)
	in.Status = q.OneOf("status", occurrenceStatuses...)
	if order := q.OneOf("orderBy", query.OrderByOccurrence, query.OrderByCreated); order != "" {
		in.OrderBy = order
	}
	in.Since, in.Until = itemRange(q, in.Now)
	return in
}

// itemRange reads the range of occurrences. Both ends lie within the days from 7 days ago to 30 days ahead. These are
// whole days in UTC, so that a caller whose clock differs by a second is not refused.
func itemRange(q *wire.Query, now time.Time) (since, until time.Time) {
	first := now.Truncate(day).Add(-daysBack * day)
	last := now.Truncate(day).Add((daysAhead+1)*day - time.Microsecond)
	since, until = q.DateOrTime("since"), q.DateOrTime("until")
	if q.Err() != nil {
		return since, until
	}
	if !q.Has("since") {
		since = now
	}
	if !q.Has("until") {
		until = since.Add(daysAhead * day)
		if until.After(last) {
			until = last
		}
	}
	switch {
	case since.Before(first) || since.After(last):
		q.Fail("since", "must be from %d days ago to %d days ahead", daysBack, daysAhead)
	case q.Has("until") && (until.Before(first) || until.After(last)):
		q.Fail("until", "must be from %d days ago to %d days ahead", daysBack, daysAhead)
	case !since.Before(until) && q.Has("since"):
		q.Fail("since", "must be before until")
	case !since.Before(until):
		q.Fail("until", "must be in the future where since is not given")
	}
	return since, until
}

// itemsPage is a page of stored items, which are not read.
type itemsPage struct {
	query.ItemsPage

	limit, offset int
}

// AppendJSON implements wire.Appender.
func (p itemsPage) AppendJSON(to []byte) []byte {
	to = append(to, `{"items":`...)
	to = append(to, p.Items...)
	to = strconv.AppendInt(append(to, `,"total":`...), int64(p.Total), 10)
	to = strconv.AppendInt(append(to, `,"pagination":{"limit":`...), int64(p.limit), 10)
	to = strconv.AppendInt(append(to, `,"offset":`...), int64(p.offset), 10)
	to = strconv.AppendBool(append(to, `,"hasMore":`...), p.HasMore(p.offset))
	return append(to, "}}"...)
}

// getItem answers GET /feeds/events/{feedId}/items/{itemId}.
func (a *API) getItem(r *http.Request) (wire.Reply, error) {
	feedID, itemID, err := itemIDs(r)
	if err != nil {
		return wire.Reply{}, err
	}
	q := wire.Feeds.ParseQuery(r, "include")
	source := withSource(q)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	shown, err := a.Queries.Item(r.Context(), callerOf(r).Organization, feedID, itemID, source, a.Now())
	return wire.OK(storedItem(shown)), wire.NotFoundError(err, "item")
}

// storedItem is the stored form of an item.
type storedItem []byte

// AppendJSON implements wire.Appender.
func (i storedItem) AppendJSON(to []byte) []byte {
	return append(append(append(to, `{"item":`...), i...), '}')
}

// itemIDs reads the path of one item. A malformed id is 400 here and 404 elsewhere under /feeds: the interface says so.
func itemIDs(r *http.Request) (feedID, itemID uuid.UUID, err error) {
	if feedID, err = wire.PathUUID(r, "feedId", wire.BadParam); err == nil {
		itemID, err = wire.PathUUID(r, "itemId", wire.BadParam)
	}
	return feedID, itemID, err
}

// giveFeedback answers POST /feeds/events/{feedId}/items/{itemId}/feedback. It asks the read model first: an item that
// has left the feed learns of it a little later in its own stream.
func (a *API) giveFeedback(r *http.Request) (wire.Reply, error) {
	feedID, itemID, err := itemIDs(r)
	if err != nil {
		return wire.Reply{}, err
	}
	body, err := wire.Decode[feedbackBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	if _, err := a.Queries.Item(r.Context(), callerOf(r).Organization, feedID, itemID, false, a.Now()); err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "item")
	}
	given, err := a.Commands.GiveFeedback(r.Context(), callerOf(r), command.GiveFeedback{
		FeedID:  feedID,
		ItemID:  itemID,
		Rating:  body.Rating.Value,
		Comment: body.Comment.Value,
	})
	return a.Changed(r, given.Position, err, wire.OK(feedbackJSON{ID: given.ID}), items.ReadModel.Name)
}

type feedbackBody struct {
	Rating  wire.Optional[string] `json:"rating"`
	Comment wire.Optional[string] `json:"comment"`
}

// Check implements wire.Body. The command checks how long the comment is.
func (b *feedbackBody) Check(c *wire.Checks) {
	if c.Require("rating", b.Rating.Set) {
		c.OneOf("rating", b.Rating.Value, item.Positive, item.Negative, item.Neutral)
	}
}

type feedbackJSON struct {
	ID uuid.UUID `json:"id"`
}
