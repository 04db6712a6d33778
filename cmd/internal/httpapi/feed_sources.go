package httpapi

import (
	"net/http"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/feeds"
	"carillon/projections/items"
)

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
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "feed")
	}
	return wire.OK(associations), nil
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
