package adminapi

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/organizations"
	"carillon/query"
)

func (a *API) organizationRoutes(r routes) {
	r.operators.Post("/admin/organizations", wire.Events.Handle(a.registerOrganization))
	r.operators.Get("/admin/organizations", wire.Events.Handle(a.listOrganizations))
	r.operators.Post("/admin/organizations/{id}/keys", wire.Events.Handle(a.issueKey))
	r.operators.Get("/admin/organizations/{id}/keys", wire.Events.Handle(a.listKeys))
	r.operators.Delete("/admin/organizations/{id}/keys/{keyId}", wire.Events.Handle(a.revokeKey))
	r.operators.Post("/admin/organizations/{id}/keys/{keyId}/rotate", wire.Events.Handle(a.rotateKey))
}

// Created answers every create.
type Created struct {
	ID uuid.UUID `json:"id"`
}

// List is a whole list.
type List[T any] struct {
	Items []T `json:"items"`
}

// Organization is one of a list.
type Organization struct {
	ID        uuid.UUID `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	Status    string    `json:"status"` // registered or suspended
}

// IssuedKey is a new API key. It can't be shown again.
type IssuedKey struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// Credential is an API key, an operator's or an auditor's token of a list: its public part, and never what opens data.
type Credential struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`  // null: never
	RevokedAt  *time.Time `json:"revokedAt"`  // null: it was not
	LastUsedAt *time.Time `json:"lastUsedAt"` // to the hour; null if no use is known
}

// Key is an API key of a list.
type Key struct {
	Credential

	Scopes      []string `json:"scopes"`
	SuccessorOf *string  `json:"successorOf"` // the key in whose place it came; null: none
}

func credentialOf(c query.Credential) Credential {
	return Credential{
		ID:         c.ID,
		Name:       c.Name,
		CreatedAt:  c.CreatedAt.UTC(),
		ExpiresAt:  wire.UTC(c.ExpiresAt),
		RevokedAt:  wire.UTC(c.RevokedAt),
		LastUsedAt: wire.UTC(c.LastUsedAt),
	}
}

type organizationBody struct {
	Name wire.Optional[string] `json:"name"`
}

// Check implements wire.Body.
func (b *organizationBody) Check(c *wire.Checks) { c.Require("name", b.Name.Set) }

// registerOrganization answers POST /admin/organizations.
func (a *API) registerOrganization(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[organizationBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	made, err := a.Commands.RegisterOrganization(r.Context(), operator(r),
		command.RegisterOrganization{Name: body.Name.Value})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), made.Position, organizations.ReadModel.Name)
	return wire.Created(Created{ID: made.ID}), nil
}

// listOrganizations answers GET /admin/organizations.
func (a *API) listOrganizations(r *http.Request) (wire.Reply, error) {
	organizations, err := a.Queries.Organizations(r.Context())
	if err != nil {
		return wire.Reply{}, err
	}
	list := List[Organization]{Items: make([]Organization, len(organizations))}
	for i, o := range organizations {
		list.Items[i] = Organization{
			ID:        o.ID,
			Name:      o.Name,
			CreatedAt: o.CreatedAt.UTC(),
			Status:    o.Status,
		}
	}
	return wire.OK(list), nil
}

type keyBody struct {
	Name      wire.Optional[string]               `json:"name"`
	Scopes    wire.Optional[[]organization.Scope] `json:"scopes"`
	ExpiresAt *string                             `json:"expiresAt"`
	expires   *time.Time
}

// Check implements wire.Body.
func (b *keyBody) Check(c *wire.Checks) {
	if b.Scopes.Set && len(b.Scopes.Value) == 0 {
		c.Fail("scopes", "must name one of read, write and secrets at least, or be left out for all")
	}
	b.expires = expiry(c, b.ExpiresAt)
}

// issueKey answers POST /admin/organizations/{id}/keys.
func (a *API) issueKey(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err != nil {
		return wire.Reply{}, err
	}
	body, err := wire.Decode[keyBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	issued, err := a.Commands.IssueKey(r.Context(), operator(r), command.IssueKey{
		Organization: id,
		Name:         body.Name.Value,
		Scopes:       body.Scopes.Value,
		ExpiresAt:    body.expires,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), issued.Position, organizations.ReadModel.Name)
	return wire.Created(IssuedKey{ID: issued.Value.ID, Key: issued.Value.Reveal()}), nil
}

// listKeys answers GET /admin/organizations/{id}/keys.
func (a *API) listKeys(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err != nil {
		return wire.Reply{}, err
	}
	keys, err := a.Queries.Keys(r.Context(), id)
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "organization")
	}
	list := List[Key]{Items: make([]Key, len(keys))}
	for i, k := range keys {
		list.Items[i] = Key{
			Credential:  credentialOf(k.Credential),
			Scopes:      k.Scopes,
			SuccessorOf: wire.Nullable(k.SuccessorOf),
		}
	}
	return wire.OK(list), nil
}

// keyOf reads which key of which organization a path names.
func keyOf(r *http.Request) (organization uuid.UUID, keyID string, err error) {
	if organization, err = wire.PathUUID(r, "id", wire.BadParam); err != nil {
		return organization, "", err
	}
	keyID, err = wire.PathText(r, "keyId")
	return organization, keyID, err
}

// revokeKey answers DELETE /admin/organizations/{id}/keys/{keyId}.
func (a *API) revokeKey(r *http.Request) (wire.Reply, error) {
	id, keyID, err := keyOf(r)
	if err != nil {
		return wire.Reply{}, err
	}
	changed, err := a.Commands.RevokeKey(r.Context(), operator(r), command.RevokeKey{Organization: id, KeyID: keyID})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), changed.Position, organizations.ReadModel.Name)
	return wire.Done(), nil
}

// rotateKey answers POST /admin/organizations/{id}/keys/{keyId}/rotate.
func (a *API) rotateKey(r *http.Request) (wire.Reply, error) {
	id, keyID, err := keyOf(r)
	if err != nil {
		return wire.Reply{}, err
	}
	body, err := wire.DecodeOptional[overlapBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	issued, err := a.Commands.RotateKey(r.Context(), operator(r), command.RotateKey{
		Organization: id,
		KeyID:        keyID,
		Overlap:      body.overlap(),
	})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), issued.Position, organizations.ReadModel.Name)
	return wire.Created(IssuedKey{ID: issued.Value.ID, Key: issued.Value.Reveal()}), nil
}
