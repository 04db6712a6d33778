package httpapi

import (
	"net/http"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/source"
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

func (a *API) feedSourceRoutes(r routes) {
	r.write.Post("/feeds/events/{id}/sources",
		wire.Feeds.Handle(wire.With2(pathFeed, wire.Decode[attachSourceBody], a.attachSource)))
	r.read.Get("/feeds/events/{id}/sources", wire.Feeds.Handle(wire.With(pathFeed, a.listFeedSources)))
	r.write.Delete("/feeds/events/{id}/sources/{sourceId}",
		wire.Feeds.Handle(wire.With2(pathFeed, pathAssociation, a.detachSource)))
}

func pathAssociation(r *http.Request) (uuid.UUID, error) {
	return wire.PathUUID(r, "sourceId", wire.NotFound)
}

// attachSource answers POST /feeds/events/{id}/sources.
func (a *API) attachSource(r *http.Request, feed uuid.UUID, body attachSourceBody) (wire.Reply, error) {
	in := command.AttachSource{FeedID: feed, SourceType: body.SourceType.Value, SourceID: body.id}
	if body.URL.Set {
		var err error
		if in.SourceID, err = a.Commands.SourceAt(r.Context(), callerOf(r), command.SourceAt{
			FeedID:   feed,
			Type:     body.SourceType.Value,
			URL:      body.URL.Value,
			Timezone: body.Timezone.Value,
		}); err != nil {
			return wire.Reply{}, err
		}
	}
	attached, err := a.Commands.AttachSource(r.Context(), callerOf(r), in)
	reply := wire.Created(writtenAssociation(attached, in))
	return a.Changed(r, attached.Position, err, reply, feeds.ReadModel.Name)
}

// listFeedSources answers GET /feeds/events/{id}/sources.
func (a *API) listFeedSources(r *http.Request, feed uuid.UUID) (wire.Reply, error) {
	associations, err := a.Queries.Associations(r.Context(), callerOf(r).Organization, feed)
	return wire.OK(associations), wire.NotFoundError(err, "feed")
}

// detachSource answers DELETE /feeds/events/{id}/sources/{sourceId}. It ends the association which {sourceId} names:
// the source itself stays, because other feeds may have it too.
func (a *API) detachSource(r *http.Request, feed, association uuid.UUID) (wire.Reply, error) {
	detached, err := a.Commands.DetachSource(r.Context(), callerOf(r), command.DetachSource{
		FeedID:        feed,
		AssociationID: association,
	})
	return a.Changed(r, detached.Position, err, wire.Done(), feeds.ReadModel.Name, items.ReadModel.Name)
}

type attachSourceBody struct {
	SourceType wire.Optional[string] `json:"sourceType"`
	SourceID   wire.Optional[string] `json:"sourceId"`
	URL        wire.Optional[string] `json:"url"`
	Timezone   wire.Optional[string] `json:"timezone"`
	id         uuid.UUID
}

// Check implements wire.Body.
func (b *attachSourceBody) Check(c *wire.Checks) {
	if c.Require("sourceType", b.SourceType.Set) {
		c.OneOf("sourceType", b.SourceType.Value, source.Types()...)
	}
	switch {
	case b.URL.Set && b.SourceID.Set:
		c.Fail("url", "must not be sent beside sourceId")
	case b.Timezone.Set && !b.URL.Set:
		c.Fail("timezone", "must be sent beside url only")
	case !b.URL.Set && c.Require("sourceId", b.SourceID.Set):
		b.id = c.UUID("sourceId", b.SourceID.Value)
	}
}
