package httpapi

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/item"
	"carillon/cmd/internal/wire"
	"carillon/command"
)

// itemIDs reads the path of one item. Unlike elsewhere under /feeds, an id that can't be one is told as such.
func itemIDs(r *http.Request) (feedID, itemID uuid.UUID, err error) {
	if feedID, err = wire.PathUUID(r, "feedId", wire.BadParam); err == nil {
		itemID, err = wire.PathUUID(r, "itemId", wire.BadParam)
	}
	return feedID, itemID, err
}

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
	if err != nil {
		return wire.Reply{}, named(err, "item")
	}
	data := append([]byte(`{"item":`), shown...)
	return wire.OK(jsontext.Value(append(data, '}'))), nil
}

type feedbackBody struct {
	Rating  wire.Optional[string] `json:"rating"`
	Comment wire.Optional[string] `json:"comment"`
}

// Check implements wire.Body. How long a comment may be is the command's.
func (b *feedbackBody) Check(c *wire.Checks) {
	if c.Require("rating", b.Rating.Set) {
		c.OneOf("rating", b.Rating.Value, item.Positive, item.Negative, item.Neutral)
	}
}

// giveFeedback asks the read model first: of an item that has left the feed, the item's own stream hears a little later.
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
		return wire.Reply{}, named(err, "item")
	}
	id, at, err := a.Commands.GiveFeedback(r.Context(), callerOf(r), command.GiveFeedback{
		FeedID: feedID, ItemID: itemID, Rating: body.Rating.Value, Comment: body.Comment.Value,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), at, "items")
	return wire.OK(feedbackJSON{ID: id}), nil
}

type feedbackJSON struct {
	ID uuid.UUID `json:"id"`
}
