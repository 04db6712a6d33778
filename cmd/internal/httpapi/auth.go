package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/credential"
	"carillon/query"
)

// authenticate lets only requests with a valid key through. It reads nothing of them but the header.
func (a *API) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := a.keyOf(r)
		if err != nil {
			surfaceOf(r).WriteError(w, r, err)
			return
		}
		wire.Note(r.Context(), slog.String("organization", key.Organization.String()), slog.String("key", key.ID))
		if a.Uses != nil {
			a.Uses.Used(string(credential.APIKey)+key.ID, a.Now())
		}
		if err := a.withinRate(r.Context(), key.Organization); err != nil {
			surfaceOf(r).WriteError(w, r, err)
			return
		}
		reason, err := wire.ReasonOf(r)
		if err != nil {
			surfaceOf(r).WriteError(w, r, err)
			return
		}
		caller := command.Caller{
			Organization: key.Organization,
			Actor:        "key:" + key.ID,
			RequestID:    wire.RequestIDOf(r.Context()),
			ReadsSecrets: slices.Contains(key.Scopes, string(organization.ScopeSecrets)),
			Reason:       reason,
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, identity{caller, key})))
	})
}

// countWrites is withinWrites for routes.
func (a *API) countWrites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.withinWrites(r, callerOf(r).Organization); err != nil {
			surfaceOf(r).WriteError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withinRate refuses a request that is one too many of its organization in this second.
func (a *API) withinRate(ctx context.Context, of uuid.UUID) error {
	return a.within(ctx, a.Rate, of, "requests in a second are what your organization may make")
}

// withinWrites refuses a request that is one too many of those by which its organization changes something in a day.
func (a *API) withinWrites(r *http.Request, of uuid.UUID) error {
	if r.Method == http.MethodGet {
		return nil
	}
	return a.within(r.Context(), a.Writes, of,
		"requests that change something are what your organization may make in a day")
}

func (a *API) within(ctx context.Context, limit Counter, of uuid.UUID, what string) error {
	if limit == nil {
		return nil
	}
	wait, err := limit.Take(ctx, of)
	if reached, ok := errors.AsType[*organization.LimitError](err); ok {
		return wire.Limited(string(reached.Limit), reached.Most, wait, what)
	}
	if err != nil {
		a.Log.WarnContext(ctx, "rate limiter unavailable; requests allowed", "error", err)
	}
	return nil
}

func (a *API) keyOf(r *http.Request) (query.Key, error) {
	header := r.Header.Values("Authorization")
	if len(header) == 0 {
		return query.Key{}, unauthenticated("the API key is missing: send it in the header Authorization: Bearer <key>")
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	presented, ok := credential.Parse(credential.APIKey, strings.TrimSpace(token))
	if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") || !ok {
		return query.Key{}, unauthenticated("the Authorization header must be Bearer and one API key, which begins with ck_")
	}
	key, err := a.keys.verify(r.Context(), presented, wire.ClientAddress(r, a.TrustedProxies))
	if errors.Is(err, query.ErrNotFound) {
		return query.Key{}, unauthenticated("the API key is not valid: it is unknown, expired or revoked")
	}
	return key, err
}

// Verify identifies an API key for the console. It returns query.ErrNotFound for an invalid one, and counts that
// against the address of the request.
func (a *API) Verify(r *http.Request, text string) (query.Key, error) {
	presented, ok := credential.Parse(credential.APIKey, text)
	if !ok {
		return query.Key{}, query.ErrNotFound
	}
	return a.keys.verify(r.Context(), presented, wire.ClientAddress(r, a.TrustedProxies))
}

// Admit lets a request of an organization in that came without a key, at the console: it counts against the same
// limits. leave is to be called when it has been answered.
func (a *API) Admit(r *http.Request, of uuid.UUID) (leave func(), err error) {
	if err := a.withinRate(r.Context(), of); err != nil {
		return nil, err
	}
	if err := a.withinWrites(r, of); err != nil {
		return nil, err
	}
	return a.turns.admit(r, of)
}

// unauthenticated refuses a request.
func unauthenticated(issue string) error {
	return &wire.Failure{Kind: wire.Unauthenticated, Issue: issue}
}

// Route is a method and a pattern of paths.
type Route struct{ Method, Path string }

// OperatorRoutes lists the routes of [API.OnBehalf].
func OperatorRoutes() []Route {
	return []Route{
		{http.MethodGet, "/events/destinations"},
		{http.MethodGet, "/events/destinations/{ref}"},
		{http.MethodGet, "/events/deliveries"},
		{http.MethodGet, "/events/deliveries/{id}"},
		{http.MethodPost, "/events/deliveries/{id}/replay"},
		{http.MethodPost, "/events/deliveries/{id}/retry"},
		{http.MethodPost, "/events/destinations/{ref}/recover"},
		{http.MethodGet, "/events/events"},
		{http.MethodGet, "/events/events/{id}"},
	}
}

// OnBehalf answers a request for an organization that an operator names: those of its routes that [OperatorRoutes]
// lists, without secrets and without its limits.
func (a *API) OnBehalf(w http.ResponseWriter, r *http.Request, by command.Caller) {
	key := query.Key{Scopes: []string{string(organization.ScopeRead), string(organization.ScopeWrite)}}
	ctx := context.WithValue(r.Context(), identityKey{}, identity{by, key})
	a.onBehalf.ServeHTTP(w, r.WithContext(context.WithValue(ctx, chi.RouteCtxKey, nil)))
}
