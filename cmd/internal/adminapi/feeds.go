package adminapi

import (
	"net/http"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/facts"
	"carillon/projections/feeds"
)

func (a *API) feedRoutes(r routes) {
	r.operators.Post("/admin/feeds", handle(wire.With(wire.Decode[feedBody], a.registerFeed)))
	r.operators.Put("/admin/feeds/{feedType}/{feedId}/shares/{organizationId}", handle(wire.With(shareOf, a.shareFeed)))
	r.operators.Delete("/admin/feeds/{feedType}/{feedId}/shares/{organizationId}",
		handle(wire.With(shareOf, a.unshareFeed)))
}

type feedBody struct {
	ID             wire.Optional[string] `json:"id"`
	FeedType       wire.Optional[string] `json:"feedType"`
	OrganizationID wire.Optional[string] `json:"organizationId"`
	Name           wire.Optional[string] `json:"name"`
	id, owner      uuid.UUID
}

// Check implements wire.Body.
func (b *feedBody) Check(c *wire.Checks) {
	if b.ID.Set {
		b.id = c.UUID("id", b.ID.Value)
	}
	if c.Require("feedType", b.FeedType.Set) {
		c.OneOf("feedType", b.FeedType.Value, feed.TypeNews, feed.TypeEvent)
	}
	if c.Require("organizationId", b.OrganizationID.Set) {
		b.owner = c.UUID("organizationId", b.OrganizationID.Value)
	}
	c.Require("name", b.Name.Set)
}

// registerFeed answers POST /admin/feeds.
func (a *API) registerFeed(r *http.Request, body feedBody) (wire.Reply, error) {
	made, err := a.Commands.RegisterFeed(r.Context(), operator(r), command.RegisterFeed{
		ID:           body.id,
		FeedType:     body.FeedType.Value,
		Organization: body.owner,
		Name:         body.Name.Value,
	})
	return a.Changed(r, made.Position, err, wire.Created(Created{ID: made.ID}), feeds.ReadModel.Name)
}

// shareFeed answers PUT /admin/feeds/{feedType}/{feedId}/shares/{organizationId}.
func (a *API) shareFeed(r *http.Request, share command.ShareFeed) (wire.Reply, error) {
	shared, err := a.Commands.ShareFeed(r.Context(), operator(r), share)
	return a.Changed(r, shared.Position, err, wire.Done(), feeds.ReadModel.Name)
}

// unshareFeed answers DELETE /admin/feeds/{feedType}/{feedId}/shares/{organizationId}.
func (a *API) unshareFeed(r *http.Request, share command.ShareFeed) (wire.Reply, error) {
	shared, err := a.Commands.UnshareFeed(r.Context(), operator(r), command.UnshareFeed(share))
	return a.Ended(r, shared.Position, err, feeds.ReadModel.Name, facts.Name)
}

func shareOf(r *http.Request) (share command.ShareFeed, err error) {
	if err := wire.DecodeNothing(r); err != nil {
		return share, err
	}
	if share.FeedType, err = wire.PathText(r, "feedType"); err != nil {
		return share, err
	}
	if share.FeedID, err = wire.PathUUID(r, "feedId", wire.BadParam); err != nil {
		return share, err
	}
	share.Organization, err = wire.PathUUID(r, "organizationId", wire.BadParam)
	return share, err
}
