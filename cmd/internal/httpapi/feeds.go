package httpapi

import (
	"net/http"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/facts"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/query"
)

func (a *API) feedRoutes(r routes) {
	r.write.Post("/feeds/events", wire.Feeds.Handle(wire.With(wire.Decode[createFeedBody], a.createFeed)))
	r.read.Get("/feeds/events", wire.Feeds.Handle(a.listFeeds))
	r.read.Get("/feeds/events/{id}", wire.Feeds.Handle(wire.With(pathFeed, a.getFeed)))
	r.write.Patch("/feeds/events/{id}",
		wire.Feeds.Handle(wire.With2(pathFeed, wire.Decode[patchFeedBody], a.patchFeed)))
	r.write.Delete("/feeds/events/{id}", wire.Feeds.Handle(wire.With(pathFeed, a.deleteFeed)))
}

// createFeed answers POST /feeds/events.
func (a *API) createFeed(r *http.Request, body createFeedBody) (wire.Reply, error) {
	written, err := a.Commands.CreateFeed(r.Context(), callerOf(r), command.CreateFeed{
		Name:          body.Name.Value,
		Description:   body.Description.Value,
		Enabled:       body.Enabled.Pointer(),
		ConfigVersion: body.Config.Value.Version.Pointer(),
	})
	return a.Changed(r, written.Position, err, wire.Created(changedFeedOf(written)), feeds.ReadModel.Name)
}

// listFeeds answers GET /feeds/events.
func (a *API) listFeeds(r *http.Request) (wire.Reply, error) {
	return wire.Streamed(a.Queries.Feeds(r.Context(), callerOf(r).Organization), func(feed query.Feed) any {
		return readFeedJSON{feed, feed.EnabledReason}
	}), nil
}

// getFeed answers GET /feeds/events/{id}.
func (a *API) getFeed(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	feed, err := a.Queries.Feed(r.Context(), callerOf(r).Organization, id)
	return wire.OK(readFeedJSON{feed, feed.EnabledReason}), wire.NotFoundError(err, "feed")
}

// patchFeed answers PATCH /feeds/events/{id}.
func (a *API) patchFeed(r *http.Request, id uuid.UUID, body patchFeedBody) (wire.Reply, error) {
	written, err := a.Commands.ReviseFeed(r.Context(), callerOf(r), command.ReviseFeed{
		ID:            id,
		Name:          body.Name.Pointer(),
		Description:   body.Description.Pointer(),
		Enabled:       body.Enabled.Pointer(),
		ConfigVersion: body.Config.Value.Version.Pointer(),
	})
	reply := wire.OK(changedFeedOf(written)) // items are ranked by name and description
	return a.Changed(r, written.Position, err, reply, feeds.ReadModel.Name, items.ReadModel.Name)
}

// deleteFeed answers DELETE /feeds/events/{id}.
func (a *API) deleteFeed(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	deleted, err := a.Commands.DeleteFeed(r.Context(), callerOf(r), command.DeleteFeed{ID: id})
	return a.Ended(r, deleted.Position, err, feeds.ReadModel.Name, items.ReadModel.Name, dispatching.Name,
		facts.Name)
}

// feedConfig is a feed's config as sent.
type feedConfig struct {
	Version wire.Optional[float64] `json:"version"`
}

// feedBody is the common part of the bodies of POST and PATCH.
type feedBody struct {
	Name        wire.Optional[string]     `json:"name"`
	Description wire.Optional[string]     `json:"description"`
	Enabled     wire.Optional[bool]       `json:"enabled"`
	Config      wire.Optional[feedConfig] `json:"config"`
}

type createFeedBody struct {
	feedBody `json:",inline"`
}

// Check implements wire.Body.
func (b *createFeedBody) Check(c *wire.Checks) {
	c.Require("name", b.Name.Set)
	c.Require("description", b.Description.Set)
}

// patchFeedBody changes the members that it has.
type patchFeedBody struct {
	feedBody `json:",inline"`
}

// Check implements wire.Body.
func (*patchFeedBody) Check(*wire.Checks) {}

// The answer to a change has enabledReason even if it is null; a read has it only if there is a reason. Clients know
// both.
type (
	changedFeedJSON struct {
		query.Feed

		EnabledReason *string `json:"enabledReason"`
	}
	readFeedJSON struct {
		query.Feed

		EnabledReason *string `json:"enabledReason,omitempty"`
	}
)

func changedFeedOf(w command.Result[feed.State]) changedFeedJSON {
	shown := writtenFeed(w)
	return changedFeedJSON{shown, shown.EnabledReason}
}
