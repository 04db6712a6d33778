package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ClientCertificate is the certificate that an organization presents to its receivers.
type ClientCertificate struct {
	ID          uuid.UUID
	Chain       string // PEM
	Subject     string
	Issuer      string
	Serial      string // hexadecimal
	Fingerprint string // SHA-256, hexadecimal
	NotBefore   time.Time
	NotAfter    time.Time
	SetAt       time.Time
	SetBy       string // an actor
}

// ClientCertificate returns the certificate of an organization, or ErrNotFound.
func (q *Queries) ClientCertificate(ctx context.Context, organization uuid.UUID) (ClientCertificate, error) {
	rows, err := q.Pool.Query(ctx, `SELECT id, chain, subject, issuer, serial, fingerprint, not_before, not_after, set_at,
		set_by
		FROM client_certificates.certificates WHERE organization = $1 AND ended_at IS NULL`, organization)
	if err != nil {
		return ClientCertificate{}, fmt.Errorf("client certificate: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[ClientCertificate])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ClientCertificate{}, ErrNotFound
	case err != nil:
		return ClientCertificate{}, fmt.Errorf("client certificate: %w", err)
	}
	return found, nil
}

// ShownCertificates returns the ids of the current certificates, by organization.
func (q *Queries) ShownCertificates(ctx context.Context) (map[uuid.UUID]uuid.UUID, error) {
	rows, err := q.Pool.Query(ctx, "SELECT organization, id FROM client_certificates.certificates WHERE ended_at IS NULL")
	if err != nil {
		return nil, fmt.Errorf("client certificates: %w", err)
	}
	shown := map[uuid.UUID]uuid.UUID{}
	var organization, id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&organization, &id}, func() error {
		shown[organization] = id
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("client certificates: %w", err)
	}
	return shown, nil
}

// ExpiringCertificate is a client certificate and its expiry.
type ExpiringCertificate struct {
	Organization uuid.UUID
	Fingerprint  string
	NotAfter     time.Time
}

// ExpiringCertificates lists up to limit certificates that expire before a time or have expired, soonest first, and
// returns their total.
func (q *Queries) ExpiringCertificates(ctx context.Context, before time.Time,
	limit int) (list []ExpiringCertificate, total int, err error) {
	const where = " FROM client_certificates.certificates WHERE ended_at IS NULL AND not_after < $1"
	var batch pgx.Batch
	batch.Queue("SELECT count(*)"+where, before).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	batch.Queue("SELECT organization, fingerprint, not_after"+where+" ORDER BY not_after, organization LIMIT $2", before,
		limit).Query(func(rows pgx.Rows) (err error) {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ExpiringCertificate])
		return err
	})
	if err := q.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("client certificates: %w", err)
	}
	return list, total, nil
}

// SoonestExpiry returns the earliest expiry of the current client certificates, or false if there are none.
func (q *Queries) SoonestExpiry(ctx context.Context) (at time.Time, found bool, err error) {
	var soonest *time.Time
	if err := q.Pool.QueryRow(ctx,
		"SELECT min(not_after) FROM client_certificates.certificates WHERE ended_at IS NULL").Scan(&soonest); err != nil {
		return at, false, fmt.Errorf("client certificates: %w", err)
	}
	if soonest == nil {
		return at, false, nil
	}
	return *soonest, true, nil
}
