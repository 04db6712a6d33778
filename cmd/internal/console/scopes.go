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

// May reports whether a session has a scope. Login links have all scopes unless they were made with fewer. Operators
// have all but secrets, which belong to the owner; auditors may only read.
func (s Session) May(scope organization.Scope) bool {
	switch s.Role {
	case ForOrganization:
		return s.Key == "" && len(s.Scopes) == 0 || slices.Contains(s.Scopes, scope)
	case ForOperator:
		return scope != organization.ScopeSecrets
	case ForAuditor:
		return scope == organization.ScopeRead
	}
	return false
}

// May is for templates, which omit buttons that would be refused.
func (v view) May(scope organization.Scope) bool { return v.session.May(scope) }

// changes are the pages that lead to a change, by the last part of their path.
var changes = []string{"new", "enable", "disable", "delete", "test", "validate", "rotate", "expire", "replay",
	"backfill", "edit", "detach"}

// scopesFor returns the scopes that a request needs. A POST needs the scope to write unless it is listed here.
func scopesFor(r *http.Request) []organization.Scope {
	switch page := path.Base(r.URL.Path); {
	case page == "reveal", page == "curl":
		return []organization.Scope{organization.ScopeRead, organization.ScopeSecrets}
	// The form of settings has all headers, and sends them back.
	case page == "edit" && strings.Contains(r.URL.Path, "/destinations/") &&
		!strings.Contains(r.URL.Path, "/subscriptions/"):
		return []organization.Scope{organization.ScopeWrite, organization.ScopeSecrets}
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		if slices.Contains(changes, page) {
			return []organization.Scope{organization.ScopeRead, organization.ScopeWrite}
		}
		return []organization.Scope{organization.ScopeRead}
	}
	return []organization.Scope{organization.ScopeWrite}
}

// permitted refuses requests for which a session lacks scopes, with the API's texts.
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
