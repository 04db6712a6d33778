package adminapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore"
)

func (a *API) consoleRoutes(r routes) {
	r.operators.Post("/admin/organizations/{id}/console-link",
		handle(wire.With2(pathID, wire.Decode[consoleLinkBody], a.consoleLink)))
}

// ConsoleLink signs its bearer in at the console, once: it is as good as a key until it expires.
type ConsoleLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// ConsoleVisitor is the person whom a login link signs in.
type ConsoleVisitor struct {
	Organization uuid.UUID
	Person       string               // beside the maker of the link, as eventstore.MadeBy has it
	Scopes       []organization.Scope // nil means all
}

type consoleLinkBody struct {
	As     wire.Optional[string]               `json:"as"`
	Scopes wire.Optional[[]organization.Scope] `json:"scopes"`
}

// Check implements wire.Body. The command checks how the name is written.
func (b *consoleLinkBody) Check(c *wire.Checks) {
	c.Require("as", b.As.Set)
	if b.Scopes.Set && !organization.ValidScopes(b.Scopes.Value) {
		c.Fail("scopes", "must be some of read, write and secrets, each once, or be left out for all")
	}
}

// consoleLink answers POST /admin/organizations/{id}/console-link.
func (a *API) consoleLink(r *http.Request, id uuid.UUID, body consoleLinkBody) (wire.Reply, error) {
	if err := command.CheckPerson("as", body.As.Value); err != nil {
		return wire.Reply{}, err
	}
	subject := id.String() + " as " + body.As.Value
	for i, scope := range body.Scopes.Value {
		subject += map[bool]string{true: ", scopes ", false: " "}[i == 0] + string(scope)
	}
	by := operator(r)
	by.Organization = id
	if err := a.recordBy(r, by, "make-console-link", subject); err != nil {
		return wire.Reply{}, err
	}
	url, expires, err := a.ConsoleLink(r.Context(), ConsoleVisitor{
		Organization: id,
		Person:       eventstore.MadeBy(body.As.Value, by.Actor),
		Scopes:       body.Scopes.Value,
	})
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "organization")
	}
	wire.Note(r.Context(), slog.String("organization", id.String()))
	return wire.Created(ConsoleLink{URL: url, ExpiresAt: expires.UTC()}), nil
}
