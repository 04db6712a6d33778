package httpapi

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"carillon/cmd/internal/wire"
)

func (a *API) catalogRoutes(r routes) {
	r.read.Get("/events/types", wire.Events.Handle(wire.NoQuery(a.listEventTypes)))
}

// listEventTypes answers GET /events/types.
func (a *API) listEventTypes(*http.Request) (wire.Reply, error) {
	types := a.Commands.Catalog.Types()
	list := make([]eventTypeJSON, len(types))
	for i, t := range types {
		list[i] = eventTypeJSON{
			Type:             t.Name,
			Description:      t.Description,
			CurrentlyEmitted: t.CurrentlyEmitted,
			FeedType:         t.FeedType,
			Schema:           t.Schema,
		}
	}
	return wire.OK(eventTypesJSON{Types: list}), nil
}

type eventTypesJSON struct {
	Types []eventTypeJSON `json:"types"`
}

type eventTypeJSON struct {
	Type             string         `json:"type"`
	Description      string         `json:"description"`
	CurrentlyEmitted bool           `json:"currentlyEmitted"`
	FeedType         string         `json:"feedType,omitempty"`
	Schema           jsontext.Value `json:"schema"`
}
