package console

import (
	"time"

	"github.com/go-chi/chi/v5"

	"carillon/aggregates/organization"
	"carillon/query"
)

// startTime is how long the first secret of a new destination is shown on its page of first steps.
const startTime = 15 * time.Minute

func (c *Console) startRoutes(r chi.Router) { r.Get("/destinations/{id}/start", c.page(c.showStart)) }

// startView is the page of first steps after the creation of a destination.
type startView struct {
	Destination   query.Destination
	Subscriptions int
	Secret        string // empty if the visitor may not see it, or later
}

// showStart answers GET /console/destinations/{id}/start. The audit trail records the disclosure of the secret.
func (c *Console) showStart(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	shown := startView{Destination: found}
	if _, shown.Subscriptions, err = c.Queries.Subscriptions(v.Context(), v.organization(), found.ID, 1, 0); err != nil {
		return screen{}, err
	}
	if v.session.May(organization.ScopeSecrets) && len(found.Secrets) == 1 &&
		c.Now().Sub(found.CreatedAt) < startTime {
		secret, err := c.secret(v.Context(), found.ID, found.Secrets[0].Sealed)
		if err != nil {
			return screen{}, err
		}
		if err := c.discloseSecrets(v, found.ID, found.Secrets[0].ID); err != nil {
			return screen{}, err
		}
		shown.Secret = secret.Reveal()
	}
	return screen{Title: "First steps of " + found.Name, Template: "start", Data: shown}, nil
}
