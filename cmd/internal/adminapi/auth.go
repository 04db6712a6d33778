package adminapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/credential"
	"carillon/query"
)

// Role is the role of the bearer of a token.
type Role string

// An operator may do everything on the admin API; an auditor reads the audit trail.
const (
	RoleOperator Role = "operator"
	RoleAuditor  Role = "auditor"
)

var (
	kindOf   = map[Role]credential.Kind{RoleOperator: credential.OperatorToken, RoleAuditor: credential.AuditorToken}
	holderOf = map[Role]query.Holder{RoleOperator: query.Operators, RoleAuditor: query.Auditors}
)

// Principal is who uses the admin API.
type Principal struct {
	Role Role
	// the operator's or auditor's name; "" for the configured admin token
	Name         string
	TokenID      string    // the public part of the token, or an id of the configured admin token
	Organization uuid.UUID // the only one that an auditor sees; zero: all
	reason       string    // of the request
}

// Actor is who acts, as events name it: "operator", "operator:<name>" or "auditor:<token id>".
func (p Principal) Actor() string {
	switch {
	case p.Role == RoleAuditor:
		return "auditor:" + p.TokenID
	case p.Name != "":
		return "operator:" + p.Name
	}
	return "operator"
}

// Sees reports whether things of an organization are there for the principal.
func (p Principal) Sees(organization uuid.UUID) bool {
	return p.Organization == uuid.Nil || p.Organization == organization
}

// Verify identifies a token: the configured admin token, an operator's or an auditor's. It returns query.ErrNotFound
// for an invalid one; another error means that it could not be looked up.
func (a *API) Verify(ctx context.Context, token string) (Principal, error) {
	sent := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sent[:], a.tokenHash[:]) == 1 {
		return Principal{Role: RoleOperator, TokenID: a.configuredID()}, nil
	}
	for role, kind := range kindOf {
		presented, ok := credential.Parse(kind, token)
		if !ok {
			continue
		}
		known, err := a.Tokens.Token(ctx, holderOf[role], presented.ID, a.Now())
		switch {
		case err != nil:
			return Principal{}, err
		case subtle.ConstantTimeCompare(known.Hash, presented.Hash()) != 1:
			return Principal{}, query.ErrNotFound
		}
		a.Uses.Used(presented.String(), a.Now())
		return Principal{
			Role:         role,
			Name:         known.Name,
			TokenID:      presented.ID,
			Organization: known.Organization,
		}, nil
	}
	return Principal{}, query.ErrNotFound
}

// verifyFrom is Verify for a request. An address that has shown too many unknown tokens is refused until it slows down,
// except for the configured one and recently valid ones.
func (a *API) verifyFrom(r *http.Request, token string) (who Principal, err error) {
	hash := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(hash[:], a.tokenHash[:]) == 1 {
		return a.Verify(r.Context(), token)
	}
	err = a.tokens.LookUp(hash, wire.ClientAddress(r, a.TrustedProxies), a.Now(), func() (err error) {
		who, err = a.Verify(r.Context(), token)
		return err
	})
	return who, err
}

// guard lets only requests with a valid token through. Nothing else of a request is read before.
func (a *API) guard(next http.Handler) http.Handler {
	authenticated := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		var known Principal
		err := query.ErrNotFound
		if strings.EqualFold(scheme, "Bearer") {
			known, err = a.verifyFrom(r, token)
		}
		if err == nil {
			known.reason, err = wire.ReasonOf(r)
		}
		switch {
		case errors.Is(err, query.ErrNotFound):
			wire.Events.WriteError(w, r, unauthenticated())
		case err != nil:
			wire.Events.WriteError(w, r, err)
		default:
			note(r.Context(), known)
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, known)))
		}
	})
	return wire.RequireTLS(a.TrustedProxies, surface)(wire.NothingAtRoot(surface)(authenticated))
}

func note(ctx context.Context, p Principal) {
	if p.Role == RoleAuditor {
		wire.Note(ctx, slog.String("auditor", p.TokenID))
		return
	}
	wire.Note(ctx, slog.String("actor", p.Actor()))
}

func unauthenticated() error {
	return &wire.Failure{
		Kind: wire.Unauthenticated, Issue: "send the admin token in the header Authorization: Bearer <token>; it is in the " +
			"data directory (admin.token), or in CARILLON_ADMIN_TOKEN, or an operator's own (carillon operator issue). An " +
			"auditor's token, while it is valid, opens the audit trail, exports, tree heads and the state of projections",
	}
}

type principalKey struct{}

// PrincipalOf is who a request comes from.
func PrincipalOf(r *http.Request) Principal {
	p, _ := r.Context().Value(principalKey{}).(Principal)
	return p
}

// operator is who a request comes from, as commands know it. Operators act for all organizations.
func operator(r *http.Request) command.Caller {
	who := PrincipalOf(r)
	return command.Caller{Actor: who.Actor(), RequestID: wire.RequestIDOf(r.Context()), Reason: who.reason}
}

// routes registers each route with its permitted roles, which are required.
type routes struct {
	operators chi.Router // operators alone
	auditors  chi.Router // operators, and auditors who see all organizations
	bound     chi.Router // those, and auditors of one organization: the handler asks Principal.Sees
}

func routesFor(r chi.Router) routes {
	return routes{
		operators: r.With(forOperators),
		auditors:  r.With(only(func(p Principal) bool { return p.Organization == uuid.Nil })),
		bound:     r,
	}
}

// forOperators refuses auditors: for them there is nothing.
func forOperators(next http.Handler) http.Handler {
	return only(func(p Principal) bool { return p.Role == RoleOperator })(next)
}

// only refuses others as if they had no token.
func only(may func(Principal) bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !may(PrincipalOf(r)) {
				wire.Events.WriteError(w, r, unauthenticated())
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// configuredID identifies the configured admin token, so that sessions begun with it end when it is exchanged.
func (a *API) configuredID() string {
	sum := sha256.Sum256(a.tokenHash[:])
	return "admin:" + hex.EncodeToString(sum[:8])
}

// StillValid reports whether the token of a principal whom Verify knew is valid now.
func (a *API) StillValid(ctx context.Context, who Principal) (bool, error) {
	if who.Role == RoleOperator && who.Name == "" {
		return who.TokenID == a.configuredID(), nil
	}
	_, err := a.Tokens.Token(ctx, holderOf[who.Role], who.TokenID, a.Now())
	if errors.Is(err, query.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// onBehalfPath is the prefix of the routes of an organization. Their own parameters have other names.
const onBehalfPath = "/admin/organizations/{organization}"

// onBehalfRoutes answers what an organization may ask of its destinations, deliveries and events, and the replay.
func (a *API) onBehalfRoutes(r routes) {
	for _, route := range httpapi.OperatorRoutes() {
		r.operators.Method(route.Method, onBehalfPath+route.Path, http.HandlerFunc(a.serveOnBehalf))
	}
}

// serveOnBehalf answers as the API does, for an organization that the path names.
func (a *API) serveOnBehalf(w http.ResponseWriter, r *http.Request) {
	id, err := wire.PathUUID(r, "organization", wire.BadParam)
	if err == nil {
		_, err = a.Queries.Organization(r.Context(), id)
		err = wire.NotFoundError(err, "organization")
	}
	if err != nil {
		wire.Events.WriteError(w, r, err)
		return
	}
	by := operator(r)
	by.Organization = id
	http.StripPrefix("/admin/organizations/"+chi.URLParam(r, "organization"), http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { a.OnBehalf(w, r, by) })).ServeHTTP(w, r)
}
