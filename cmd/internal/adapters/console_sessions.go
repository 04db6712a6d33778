package adapters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi"
	"carillon/query"
)

// ConsoleSessions is console.Sessions in Postgres.
type ConsoleSessions struct {
	Pool *pgxpool.Pool
	// Keys finds the key of a session, so that it is compared with the log. Optional.
	Keys httpapi.Keys
}

var _ console.Sessions = ConsoleSessions{}

const (
	// sessionsOfOrganization is how many one organization has: of more, the oldest end.
	sessionsOfOrganization = 1000

	// Each new session removes some ended ones.
	beginSession = `
		WITH ended AS (DELETE FROM carillon.console_sessions WHERE hash IN (
			SELECT hash FROM carillon.console_sessions WHERE expires_at <= $5 LIMIT 100)),
		crowded AS (DELETE FROM carillon.console_sessions WHERE hash IN (
			SELECT hash FROM carillon.console_sessions WHERE $2 = 'organization' AND role = $2 AND organization = $3
			ORDER BY expires_at DESC OFFSET $8 - 1))
		INSERT INTO carillon.console_sessions (hash, role, organization, key, name, expires_at, person, scopes)
		VALUES ($1, $2, $3, $4, $6, $7, $9, $10)`
	// holdingSession are those that go on at $2: their key or token does, and their organization. Whether the configured
	// admin token is another one now, the process knows that has it. Those of login links, which began $3 before their
	// end, end with a suspension.
	holdingSession = `FROM carillon.console_sessions s LEFT JOIN organizations.organizations o ON o.id = s.organization
		WHERE s.expires_at > $2 AND CASE s.role
			WHEN 'organization' THEN o.status = 'registered'
			AND (s.key = '' AND coalesce(s.expires_at - $3::interval > o.suspended_at, true) OR EXISTS (
				SELECT 1 FROM organizations.keys k WHERE k.id = s.key AND k.revoked_at IS NULL AND k.expires_at > $2))
			WHEN 'operator' THEN s.name = '' OR EXISTS (
				SELECT 1 FROM operators.tokens t WHERE t.id = s.key AND t.revoked_at IS NULL
				AND (t.expires_at IS NULL OR t.expires_at > $2))
			ELSE EXISTS (
				SELECT 1 FROM auditors.tokens t WHERE t.id = s.key AND t.revoked_at IS NULL
				AND (t.expires_at IS NULL OR t.expires_at > $2)) END`
	findSession = `
		SELECT s.role, s.organization, coalesce(o.name, s.name), s.key, s.expires_at,
			coalesce((SELECT k.scopes FROM organizations.keys k WHERE k.id = s.key AND k.organization = s.organization),
			s.scopes), s.person
		` + holdingSession + ` AND s.hash = $1`
	endSession = `DELETE FROM carillon.console_sessions WHERE hash = $1`
	makeLink   = `
		WITH ended AS (DELETE FROM carillon.console_links WHERE hash IN (
			SELECT hash FROM carillon.console_links WHERE expires_at <= clock_timestamp() LIMIT 100))
		INSERT INTO carillon.console_links (hash, organization, expires_at, person, scopes)
		SELECT $1, id, $3, $4, $5 FROM organizations.organizations WHERE id = $2`
	openLink = `
		DELETE FROM carillon.console_links l WHERE hash = $1
		RETURNING organization, person, scopes, expires_at > $2 AND NOT EXISTS (
			SELECT 1 FROM organizations.organizations o WHERE o.id = l.organization
			AND o.suspended_at >= l.expires_at - $3::interval)`
)

// Begin implements console.Sessions.
func (s ConsoleSessions) Begin(ctx context.Context, hash []byte, session console.Session, now time.Time) error {
	_, err := s.Pool.Exec(ctx, beginSession, hash, session.Role, session.Organization, session.Key, now, session.Name,
		session.ExpiresAt, sessionsOfOrganization, session.Person, kept(session))
	return wrap("begin session", err)
}

// Find implements console.Sessions.
func (s ConsoleSessions) Find(ctx context.Context, hash []byte, now time.Time) (found console.Session, err error) {
	err = s.Pool.QueryRow(ctx, findSession, hash, now, console.SessionLength).Scan(
		&found.Role, &found.Organization, &found.Name, &found.Key, &found.ExpiresAt, &found.Scopes, &found.Person,
	)
	if err == nil && found.Role == console.ForOrganization && found.Key != "" && s.Keys != nil {
		keys, err := s.Keys.FindKeys(ctx, []string{found.Key}, now)
		if err == nil && len(keys) == 0 {
			err = query.ErrNotFound
		}
		if err != nil {
			return console.Session{}, fmt.Errorf("key of a session: %w", err)
		}
	}
	return found, missing("session", err)
}

// End implements console.Sessions.
func (s ConsoleSessions) End(ctx context.Context, hash []byte) error {
	_, err := s.Pool.Exec(ctx, endSession, hash)
	return wrap("end session", err)
}

// Link implements console.Sessions.
func (s ConsoleSessions) Link(
	ctx context.Context, hash []byte, of adminapi.ConsoleVisitor, expires time.Time,
) error {
	made, err := s.Pool.Exec(ctx, makeLink, hash, of.Organization, expires, of.Person, nonNil(of.Scopes))
	if err == nil && made.RowsAffected() == 0 {
		err = pgx.ErrNoRows
	}
	return missing("organization", err)
}

// Open implements console.Sessions.
func (s ConsoleSessions) Open(
	ctx context.Context, hash []byte, now time.Time,
) (of adminapi.ConsoleVisitor, err error) {
	var fresh bool
	err = s.Pool.QueryRow(ctx, openLink, hash, now, console.LinkLength).Scan(&of.Organization, &of.Person, &of.Scopes,
		&fresh)
	if err == nil && !fresh {
		err = pgx.ErrNoRows
	}
	return of, missing("login link", err)
}

// kept returns the scopes that are stored with a session: those of a key are looked up each time.
func kept(s console.Session) []organization.Scope {
	if s.Key != "" {
		return []organization.Scope{}
	}
	return nonNil(s.Scopes)
}

// missing distinguishes a missing row from a failed query.
func missing(what string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, query.ErrNotFound)
	}
	return wrap(what, err)
}
