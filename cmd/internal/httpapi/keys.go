package httpapi

import (
	"net/http"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/organizations"
)

func (a *API) keyRoutes(r routes) {
	r.read.Get("/keys", wire.Feeds.Handle(a.listKeys))
	r.write.Post("/keys/{keyId}/rotate", wire.Feeds.Handle(a.rotateKey))
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

// listKeys answers GET /keys with those that work, of which there are as many as the limit allows, and their overlapping
// predecessors.
func (a *API) listKeys(r *http.Request) (wire.Reply, error) {
	keys, err := a.Queries.Keys(r.Context(), callerOf(r).Organization)
	if err != nil {
		return wire.Reply{}, err
	}
	now, list := a.Now(), []keyJSON{}
	for _, k := range keys {
		if k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt)) {
			list = append(list, keyJSON{
				ID: k.ID, Name: k.Name, Scopes: k.Scopes, CreatedAt: k.CreatedAt.UTC(), ExpiresAt: wire.UTC(k.ExpiresAt),
				LastUsedAt: wire.UTC(k.LastUsedAt), SuccessorOf: wire.Nullable(k.SuccessorOf),
			})
		}
	}
	return wire.OK(list), nil
}

type rotateKeyBody struct {
	OverlapSeconds wire.Optional[int] `json:"overlapSeconds"`
}

// Check implements wire.Body. The command checks the range.
func (b *rotateKeyBody) Check(*wire.Checks) {}

type issuedKeyJSON struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// rotateKey answers POST /keys/{keyId}/rotate.
func (a *API) rotateKey(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathText(r, "keyId")
	if err != nil {
		return wire.Reply{}, err
	}
	body, err := wire.DecodeOptional[rotateKeyBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	in := command.RotateKey{
		Organization: callerOf(r).Organization, KeyID: id, By: identityOf(r.Context()).key.ID, Overlap: command.UsualOverlap,
	}
	if body.OverlapSeconds.Set {
		in.Overlap = command.OverlapOf(body.OverlapSeconds.Value)
	}
	made, at, err := a.Commands.RotateKey(r.Context(), callerOf(r), in)
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), at, organizations.ReadModel.Name)
	return wire.Created(issuedKeyJSON{ID: made.ID, Key: made.Key.Reveal()}), nil
}
