package adapters

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/console"
	"carillon/query"
)

// ConsoleSessions is console.Sessions in Postgres.
type ConsoleSessions struct{ Pool *pgxpool.Pool }

var _ console.Sessions = ConsoleSessions{}

const (
	// sessionsOfOrganization is how many one organization has: of more, the oldest end.
	sessionsOfOrganization = 1000

	// Whoever begins one clears away those that have ended, a few at a time.
	beginSession = `
		WITH ended AS (DELETE FROM carillon.console_sessions WHERE hash IN (
			SELECT hash FROM carillon.console_sessions WHERE expires_at <= $5 LIMIT 100)),
		crowded AS (DELETE FROM carillon.console_sessions WHERE hash IN (
			SELECT hash FROM carillon.console_sessions WHERE $2 = 'organization' AND role = $2 AND organization = $3
			ORDER BY expires_at DESC OFFSET $8 - 1))
		INSERT INTO carillon.console_sessions (hash, role, organization, key, name, expires_at) VALUES ($1, $2, $3, $4, $6, $7)`
	// holdingSession are those that go on at $2: their key or token does, and their organization. Whether the configured
	// admin token is another one now, the process knows that has it. Those of login links, which began $3 before their end,
	// end with a suspension.
	holdingSession = `FROM carillon.console_sessions s LEFT JOIN organizations.organizations o ON o.id = s.organization
		WHERE s.expires_at > $2 AND CASE s.role
			WHEN 'organization' THEN o.status = 'registered' AND (s.key = '' AND coalesce(s.expires_at - $3::interval > o.suspended_at, true) OR EXISTS (
				SELECT 1 FROM organizations.keys k WHERE k.id = s.key AND k.revoked_at IS NULL AND k.expires_at > $2))
			WHEN 'operator' THEN s.name = '' OR EXISTS (
				SELECT 1 FROM operators.tokens t WHERE t.id = s.key AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $2))
			ELSE EXISTS (
				SELECT 1 FROM auditors.tokens t WHERE t.id = s.key AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $2)) END`
	findSession = `
		SELECT s.role, s.organization, coalesce(o.name, s.name), s.key, s.expires_at,
			coalesce((SELECT k.scopes FROM organizations.keys k WHERE k.id = s.key AND k.organization = s.organization), '{}'),
			(o.limits->>'requestsPerSecond')::bigint
		` + holdingSession + ` AND s.hash = $1`
	// Both the sessions that are gone and those whose key or token is.
	endedSessions = `
		SELECT encode(asked.hash, 'hex') FROM unnest($1::bytea[]) asked (hash) WHERE NOT EXISTS (
			SELECT 1 ` + holdingSession + ` AND s.hash = asked.hash)`
	endSession = `DELETE FROM carillon.console_sessions WHERE hash = $1`
	makeLink   = `
		WITH ended AS (DELETE FROM carillon.console_links WHERE hash IN (
			SELECT hash FROM carillon.console_links WHERE expires_at <= clock_timestamp() LIMIT 100))
		INSERT INTO carillon.console_links (hash, organization, expires_at)
		SELECT $1, id, $3 FROM organizations.organizations WHERE id = $2`
	openLink = `
		DELETE FROM carillon.console_links l WHERE hash = $1 RETURNING organization, expires_at > $2 AND NOT EXISTS (
			SELECT 1 FROM organizations.organizations o WHERE o.id = l.organization AND o.suspended_at >= l.expires_at - $3::interval)`
)

// Begin implements console.Sessions.
func (s ConsoleSessions) Begin(ctx context.Context, hash []byte, session console.Session, now time.Time) error {
	_, err := s.Pool.Exec(ctx, beginSession, hash, session.Role, session.Organization, session.Key, now, session.Name, session.ExpiresAt,
		sessionsOfOrganization)
	return wrap("begin session", err)
}

// Find implements console.Sessions.
func (s ConsoleSessions) Find(ctx context.Context, hash []byte, now time.Time) (found console.Session, err error) {
	err = s.Pool.QueryRow(ctx, findSession, hash, now, console.SessionLength).Scan(
		&found.Role, &found.Organization, &found.Name, &found.Key, &found.ExpiresAt, &found.Scopes, &found.Requests,
	)
	return found, missing("session", err)
}

// End implements console.Sessions.
func (s ConsoleSessions) End(ctx context.Context, hash []byte) error {
	_, err := s.Pool.Exec(ctx, endSession, hash)
	return wrap("end session", err)
}

// Ended implements console.Sessions.
func (s ConsoleSessions) Ended(ctx context.Context, sessions []string, now time.Time) ([]string, error) {
	hashes := make([][]byte, len(sessions))
	for i, name := range sessions {
		var err error
		if hashes[i], err = hex.DecodeString(name); err != nil {
			return nil, fmt.Errorf("name of a session: %w", err)
		}
	}
	rows, err := s.Pool.Query(ctx, endedSessions, hashes, now, console.SessionLength)
	if err != nil {
		return nil, fmt.Errorf("ended sessions: %w", err)
	}
	ended, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ended, wrap("ended sessions", err)
}

// Link implements console.Sessions.
func (s ConsoleSessions) Link(ctx context.Context, hash []byte, organization uuid.UUID, expires time.Time) error {
	made, err := s.Pool.Exec(ctx, makeLink, hash, organization, expires)
	if err == nil && made.RowsAffected() == 0 {
		err = pgx.ErrNoRows
	}
	return missing("organization", err)
}

// Open implements console.Sessions.
func (s ConsoleSessions) Open(ctx context.Context, hash []byte, now time.Time) (organization uuid.UUID, err error) {
	var fresh bool
	err = s.Pool.QueryRow(ctx, openLink, hash, now, console.LinkLength).Scan(&organization, &fresh)
	if err == nil && !fresh {
		err = pgx.ErrNoRows
	}
	return organization, missing("login link", err)
}

// missing tells what is not there from what could not be looked for.
func missing(what string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, query.ErrNotFound)
	}
	return wrap(what, err)
}
