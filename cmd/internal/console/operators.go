package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/query"
)

// Operators are the additional parts of the operators' and auditors' console. All fields are required.
type Operators struct {
	// Verify returns the holder of a token, or query.ErrNotFound if it is not valid; see adminapi.API.
	Verify func(ctx context.Context, token string) (adminapi.Principal, error)
	// StillValid reports whether the token of a known holder is still valid.
	StillValid  func(ctx context.Context, who adminapi.Principal) (bool, error)
	Projections adminapi.Projections
	System      func(ctx context.Context) (System, error)
}

// session returns the session of the holder of a token.
func (o *Operators) session(ctx context.Context, token string) (Session, error) {
	who, err := o.Verify(ctx, token)
	return Session{
		Role:         Role(who.Role),
		Key:          who.TokenID,
		Name:         who.Name,
		Organization: who.Organization,
	}, err
}

// stillValid returns a session whose token is valid now, or query.ErrNotFound.
func (o *Operators) stillValid(ctx context.Context, s Session) (Session, error) {
	if s.Role != ForOperator && s.Role != ForAuditor {
		return Session{}, query.ErrNotFound
	}
	valid, err := o.StillValid(ctx, s.principal())
	if err == nil && !valid {
		err = query.ErrNotFound
	}
	return s, err
}

// operatorRoutes adds the pages on the listener of the admin API. Auditors have access to some of them.
func (c *Console) operatorRoutes(r chi.Router) {
	r.Get("/", c.home)
	c.recordRoutes(r)
	c.systemRoutes(r)
	r.Group(func(r chi.Router) {
		r.Use(c.onlyOperators)
		c.sourceRoutes(r)
		r.Get("/organizations", c.page(c.listOrganizations))
		r.Route("/organizations/{organization}", func(r chi.Router) {
			r.Use(c.inside)
			c.organizationRoutes(r)
		})
	})
}

// home answers GET /console/: auditors see the audit trail.
func (c *Console) home(w http.ResponseWriter, r *http.Request) {
	if visitOf(r).session.Role == ForAuditor {
		http.Redirect(w, r, Base+"/record", http.StatusFound)
		return
	}
	c.page(c.overviewOfAll)(w, r)
}

// onlyOperators refuses auditors, who may change nothing.
func (c *Console) onlyOperators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if visitOf(r).session.Role != ForOperator {
			c.fail(w, r, &wire.Failure{Kind: wire.Forbidden, Issue: auditorsLook})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// notBound refuses auditors of one organization: consumers concern all of them.
func (c *Console) notBound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if visitOf(r).session.Organization != uuid.Nil {
			c.fail(w, r, &wire.Failure{Kind: wire.Forbidden, Issue: boundToOne})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// inside shows an operator the pages of the organization in the path.
func (c *Console) inside(next http.Handler) http.Handler {
	return c.handle(func(w http.ResponseWriter, v *visit) error {
		id := v.id("organization")
		found, err := c.Queries.Organization(v.Context(), id)
		if err != nil {
			return err
		}
		c.serve(w, v.Request, visit{
			session: v.session,
			shown:   id,
			name:    found.Name,
			base:    c.baseOf(id),
			reason:  v.reason,
		}, next)
		return nil
	})
}

// organizationList is a page of the list of all organizations.
type organizationList struct {
	Organizations []query.OrganizationSummary
	Text          string // search text
	Paging        paging
}

// listOrganizations answers GET /console/organizations.
func (c *Console) listOrganizations(v *visit) (screen, error) {
	list := organizationList{Text: strings.TrimSpace(v.URL.Query().Get("q")), Paging: pagingOf(v.URL)}
	if err := searchable("q", list.Text); err != nil {
		return screen{}, err
	}
	var err error
	list.Organizations, list.Paging.Total, err = c.Queries.OrganizationSummaries(v.Context(), list.Text, c.Now(), pageSize,
		list.Paging.offset())
	return screen{Title: "Organizations", Template: "organizations", Data: list}, err
}
