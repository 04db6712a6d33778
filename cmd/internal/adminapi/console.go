package adminapi

import (
	"log/slog"
	"net/http"
	"time"

	"carillon/cmd/internal/wire"
)

func (a *API) consoleRoutes(r routes) {
	r.operators.Post("/admin/organizations/{id}/console-link", wire.Events.Handle(a.consoleLink))
}

// ConsoleLink signs somebody in at the console, once. Whoever has it can: it is as good as a key until it expires.
type ConsoleLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// consoleLink answers POST /admin/organizations/{id}/console-link.
func (a *API) consoleLink(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := wire.DecodeNothing(r); err != nil {
		return wire.Reply{}, err
	}
	if err := a.record(r, "make-console-link", id.String()); err != nil {
		return wire.Reply{}, err
	}
	url, expires, err := a.ConsoleLink(r.Context(), id)
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "organization")
	}
	wire.Note(r.Context(), slog.String("organization", id.String()))
	return wire.Created(ConsoleLink{URL: url, ExpiresAt: expires.UTC()}), nil
}
