// Package clientcertificates is the read model of the client certificates that organizations show to their receivers.
package clientcertificates

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/clientcertificate"
	"carillon/eventstore"
	"carillon/projections"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of client certificates.
var ReadModel = projections.ReadModel{
	Name:    "client_certificates",
	Version: 1,
	Schema:  schema,
	Filter:  eventstore.Categories(clientcertificate.Aggregate.Category),
	Project: projections.Statements(clientcertificate.Events.Decode, queue),
}

const insertCertificate = `INSERT INTO certificates
	(id, organization, chain, subject, issuer, serial, fingerprint, not_before, not_after, set_at, set_by)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// queue adds an event's statements.
func queue(batch *pgx.Batch, recorded *eventstore.Recorded, event clientcertificate.Event) error {
	meta, err := eventstore.ParseMetadata(recorded.Metadata)
	if err != nil {
		return fmt.Errorf("%w: %s@%d: %w", eventstore.ErrUndecodable, recorded.Stream, recorded.Revision, err)
	}
	begin := func(c clientcertificate.Certificate, at time.Time) {
		batch.Queue(insertCertificate, c.ID, recorded.StreamID(), c.Chain, c.Subject, c.Issuer, c.Serial, c.Fingerprint,
			c.NotBefore, c.NotAfter, at, meta.Actor)
	}
	end := func(id uuid.UUID, at time.Time) {
		batch.Queue("UPDATE certificates SET ended_at = $2 WHERE id = $1", id, at)
	}
	switch e := event.(type) {
	case clientcertificate.Set:
		begin(e.Certificate, e.At)
	case clientcertificate.Replaced:
		end(e.Of, e.At)
		begin(e.Certificate, e.At)
	case clientcertificate.Removed:
		end(e.ID, e.At)
	}
	return nil
}
