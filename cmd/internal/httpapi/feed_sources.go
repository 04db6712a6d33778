package httpapi

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/query"
)

func (a *API) feedSourceRoutes(r routes) {
	r.write.Post("/feeds/events/{id}/sources", wire.Feeds.Handle(a.attachSource))
	r.read.Get("/feeds/events/{id}/sources", wire.Feeds.Handle(a.listFeedSources))
	r.write.Delete("/feeds/events/{id}/sources/{sourceId}", wire.Feeds.Handle(a.detachSource))
}

// attachSource answers POST /feeds/events/{id}/sources.
func (a *API) attachSource(r *http.Request) (wire.Reply, error) {
	feed, err := wire.PathUUID(r, "id", wire.NotFound)
	if err != nil {
		return wire.Reply{}, err
	}
	body, err := wire.Decode[attachSourceBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	in := command.AttachSource{FeedID: feed, SourceType: body.SourceType.Value, SourceID: body.id}
	if body.URL.Set {
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
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), attached.Position, feeds.ReadModel.Name)
	return wire.Created(associationOf(writtenAssociation(attached, in))), nil
}

// listFeedSources answers GET /feeds/events/{id}/sources.
func (a *API) listFeedSources(r *http.Request) (wire.Reply, error) {
	feed, err := wire.PathUUID(r, "id", wire.NotFound)
	if err != nil {
		return wire.Reply{}, err
	}
	associations, err := a.Queries.Associations(r.Context(), callerOf(r).Organization, feed)
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "feed")
	}
	list := make([]associationJSON, len(associations))
	for i, association := range associations {
		list[i] = associationOf(association)
	}
	return wire.OK(list), nil
}

// detachSource answers DELETE /feeds/events/{id}/sources/{sourceId}. It ends the association which {sourceId} names:
// the source itself stays, because other feeds may have it too.
func (a *API) detachSource(r *http.Request) (wire.Reply, error) {
	feed, err := wire.PathUUID(r, "id", wire.NotFound)
	if err != nil {
		return wire.Reply{}, err
	}
	association, err := wire.PathUUID(r, "sourceId", wire.NotFound)
	if err != nil {
		return wire.Reply{}, err
	}
	detached, err := a.Commands.DetachSource(r.Context(), callerOf(r), command.DetachSource{
		FeedID:        feed,
		AssociationID: association,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), detached.Position, feeds.ReadModel.Name, items.ReadModel.Name)
	return wire.Done(), nil
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

type associationJSON struct {
	ID          uuid.UUID `json:"id"`
	EventFeedID uuid.UUID `json:"eventFeedId"`
	SourceType  string    `json:"sourceType"`
	SourceID    uuid.UUID `json:"sourceId"`
	CreatedAt   time.Time `json:"createdAt"`
}

func associationOf(a query.Association) associationJSON {
	return associationJSON{
		ID:          a.ID,
		EventFeedID: a.FeedID,
		SourceType:  a.SourceType,
		SourceID:    a.SourceID,
		CreatedAt:   a.CreatedAt.UTC(),
	}
}
