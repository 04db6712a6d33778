package httpapi

import (
	"net/http"
	"time"

	"carillon/cmd/internal/wire"
)

func (a *API) keyRoutes(r routes) {
	r.read.Get("/keys", wire.Feeds.Handle(a.listKeys))
}

// keyJSON is an API key without what opens data.
type keyJSON struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Scopes      []string   `json:"scopes"`
	CreatedAt   time.Time  `json:"createdAt"`
	ExpiresAt   *time.Time `json:"expiresAt"`
	LastUsedAt  *time.Time `json:"lastUsedAt"`
	SuccessorOf *string    `json:"successorOf"`
}

// listKeys answers GET /keys with the working keys, at most as many as the limit allows, and their overlapping
// predecessors.
func (a *API) listKeys(r *http.Request) (wire.Reply, error) {
	keys, err := a.Queries.Keys(r.Context(), callerOf(r).Organization)
	now, list := a.Now(), []keyJSON{}
	for _, k := range keys {
		if k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt)) {
			list = append(list, keyJSON{
				ID:          k.ID,
				Name:        k.Name,
				Scopes:      k.Scopes,
				CreatedAt:   k.CreatedAt.UTC(),
				ExpiresAt:   wire.UTC(k.ExpiresAt),
				LastUsedAt:  wire.UTC(k.LastUsedAt),
				SuccessorOf: k.SuccessorOf,
			})
		}
	}
	return wire.OK(list), err
}
