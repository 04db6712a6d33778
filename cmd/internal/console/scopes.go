package console

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
)

// May reports whether somebody's key has a scope. People with a login link may do all. Operators look after things, but
// secrets are for their owner; auditors look.
func (s Session) May(scope organization.Scope) bool {
	switch s.Role {
	case ForOrganization:
		return s.Key == "" || slices.Contains(s.Scopes, scope)
	case ForOperator:
		return scope != organization.ScopeSecrets
	case ForAuditor:
		return scope == organization.ScopeRead
	}
	return false
}

// May is for templates, which show nobody a button that would be refused.
func (v view) May(scope organization.Scope) bool { return v.session.May(scope) }

// changes are the pages that lead to a change, by the last part of their path.
var changes = []string{"new", "enable", "disable", "delete", "test", "validate", "rotate", "expire", "replay", "backfill", "edit", "detach"}

// scopesFor are those that a request needs: one that sends something changes something, unless it is named here.
func scopesFor(r *http.Request) []organization.Scope {
	switch page := path.Base(r.URL.Path); {
	case page == "reveal":
		return []organization.Scope{organization.ScopeRead, organization.ScopeSecrets}
	case page == "edit" && strings.Contains(r.URL.Path, "/destinations/"): // its form has headers in full, and sends back what it has
		return []organization.Scope{organization.ScopeWrite, organization.ScopeSecrets}
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		if slices.Contains(changes, page) {
			return []organization.Scope{organization.ScopeRead, organization.ScopeWrite}
		}
		return []organization.Scope{organization.ScopeRead}
	}
	return []organization.Scope{organization.ScopeWrite}
}

// permitted refuses what a session has not the scopes for, by the words of the API.
func permitted(s Session, r *http.Request) error {
	for _, scope := range scopesFor(r) {
		if !s.May(scope) {
			issue := fmt.Sprintf(missingScope, scope)
			switch s.Role {
			case ForOrganization:
			case ForAuditor:
				issue = auditorsLook
			case ForOperator:
				issue = ofTheirPeople
			}
			return &wire.Failure{Kind: wire.Forbidden, Issue: issue}
		}
	}
	return nil
}
