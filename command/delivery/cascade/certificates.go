package cascade

import (
	"context"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/eventstore"
)

// afterCertificate shreds the data key of a certificate that ended, in case the request that ended it died before
// it did. A certificate of a deleted organization ends.
func (c *Deletions) afterCertificate(ctx context.Context, r *eventstore.Recorded) error {
	event, err := clientcertificate.Events.Decode(r)
	if err != nil {
		return err
	}
	if ended := clientcertificate.Ended(event); ended != uuid.Nil {
		if err := c.holdings.Shred(ctx, ended); err != nil {
			return err
		}
	}
	if id := r.StreamID(); c.gone.Get(id) != nil { // a request in flight may have set it
		return c.endCertificate(ctx, r, id)
	}
	return nil
}

// endCertificate removes the client certificate of a deleted organization, and its data key.
func (c *Deletions) endCertificate(ctx context.Context, r *eventstore.Recorded, of uuid.UUID) error {
	out, err := clientcertificate.Aggregate.Execute(ctx, c.store, of, clientcertificate.Remove{At: r.RecordedAt()},
		consequence[clientcertificate.State](r, of, of, reasonOrganization))
	if err := unlessGone(err, "remove client certificate of", of); err != nil {
		return err
	}
	for _, event := range out.Events { // none if it was recorded before, which comes back as an event
		if ended := clientcertificate.Ended(event); ended != uuid.Nil {
			return c.holdings.Shred(ctx, ended)
		}
	}
	return nil
}
