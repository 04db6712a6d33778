package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/query"
)

// routes registers each route with the scopes that a key needs, which are required.
type routes struct {
	read    chi.Router
	write   chi.Router
	secrets chi.Router // read and secrets
}

// routesFor makes the routes of a router. Those of counted count against the limit of writes.
func routesFor(r, counted chi.Router) routes {
	return routes{
		read:    r.With(needs(organization.ScopeRead)),
		write:   counted.With(needs(organization.ScopeWrite)),
		secrets: r.With(needs(organization.ScopeRead), needs(organization.ScopeSecrets)),
	}
}

// needs refuses requests whose key has not a scope, before anything but the path is read of them. The events surface
// has no 403: there the key is no good for this.
func needs(scope organization.Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !may(r.Context(), scope) {
				kind := wire.Forbidden
				if surfaceOf(r) == wire.Events {
					kind = wire.Unauthenticated
				}
				surfaceOf(r).WriteError(w, r, &wire.Failure{
					Kind: kind, Issue: fmt.Sprintf("the API key has not the scope %s, which this needs: use a key that has it", scope),
				})
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// identity is whose key a request has shown.
type identity struct {
	caller command.Caller
	key    query.Key
}

type identityKey struct{}

func identityOf(ctx context.Context) identity {
	known, _ := ctx.Value(identityKey{}).(identity)
	return known
}

// callerOf returns the caller of a request.
func callerOf(r *http.Request) command.Caller { return identityOf(r.Context()).caller }

// may reports whether the key of a request has a scope.
func may(ctx context.Context, scope organization.Scope) bool {
	return slices.Contains(identityOf(ctx).key.Scopes, string(scope))
}

// masked replaces a header's value if the key may not read secrets.
const masked = "…"

// headersFor are custom headers as a caller may see them.
func headersFor(ctx context.Context, headers map[string]string) map[string]string {
	if may(ctx, organization.ScopeSecrets) {
		return headers
	}
	hidden := make(map[string]string, len(headers))
	for name := range headers {
		hidden[name] = masked
	}
	return hidden
}

// checkUnmasked refuses masked headers, as a key without the scope secrets gets them.
func checkUnmasked(c *wire.Checks, headers wire.Optional[map[string]string]) {
	for name, value := range headers.Value {
		if value == masked {
			c.Fail("config.headers", "has the mask in the place of the value of %s: send the value, or use PATCH without "+
				"headers", name)
			return
		}
	}
}
