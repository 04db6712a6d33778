package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ClientCertificate is the certificate that an organization presents to its receivers.
type ClientCertificate struct {
	ID          uuid.UUID `json:"-"`
	Chain       string    `json:"certificate"` // PEM: the client certificate, and after it those that signed it
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	Serial      string    `json:"serialNumber"` // hexadecimal
	Fingerprint string    `json:"fingerprint"`  // SHA-256, hexadecimal
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	DaysLeft    int       `json:"daysLeft" db:"-"` // whole days until it expires; negative: it has
	SetAt       time.Time `json:"setAt"`
	SetBy       string    `json:"setBy,omitempty"` // an actor, such as operator:ann
}

// ClientCertificate returns the certificate of an organization, or ErrNotFound.
func (q *Queries) ClientCertificate(ctx context.Context, organization uuid.UUID) (ClientCertificate, error) {
	return one(ctx, q.Pool, "client certificate", pgx.RowToStructByPos[ClientCertificate],
		`SELECT id, chain, subject, issuer, serial, fingerprint, not_before, not_after, set_at,
		set_by
		FROM client_certificates.certificates WHERE organization = $1 AND ended_at IS NULL`, organization)
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
	limit int) ([]ExpiringCertificate, int, error) {
	const where = " FROM client_certificates.certificates WHERE ended_at IS NULL AND not_after < $1"
	return counted(ctx, q.Pool, "client certificates", pgx.RowToStructByPos[ExpiringCertificate], statement{
		"SELECT organization, fingerprint, not_after" + where + " ORDER BY not_after, organization LIMIT $2",
		[]any{before, limit},
	}, statement{"SELECT count(*)" + where, []any{before}})
}

// SoonestExpiry returns the earliest expiry of the current client certificates, or false if there are none.
func (q *Queries) SoonestExpiry(ctx context.Context) (at time.Time, found bool, err error) {
	soonest, err := value[*time.Time](ctx, q.Pool, "client certificates",
		"SELECT min(not_after) FROM client_certificates.certificates WHERE ended_at IS NULL")
	if err != nil || soonest == nil {
		return at, false, err
	}
	return *soonest, true, nil
}
