package command

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/command/mtls"
	"carillon/command/sealing"
)

// SetClientCertificate is an operator's input: the certificate that an organization's requests present from now on.
type SetClientCertificate struct {
	Organization uuid.UUID
	Certificate  string // PEM: the client certificate, and after it those that signed it
	PrivateKey   string // PEM, not encrypted
}

// RemoveClientCertificate is an operator's input.
type RemoveClientCertificate struct{ Organization uuid.UUID }

// SetClientCertificate sets or replaces the client certificate of an organization. The private key is sealed under a
// separate data key; that of the former certificate is shredded. The same one again changes nothing, unless its private
// key was lost.
func (c *Commands) SetClientCertificate(
	ctx context.Context, by Caller, in SetClientCertificate,
) (set Result[clientcertificate.State], err error) {
	read, err := mtls.Read(in.Certificate, in.PrivateKey, c.now())
	if wrong, ok := errors.AsType[*mtls.Error](err); ok {
		return set, &Refusal{
			Kind:    Malformed,
			Field:   wrong.Field,
			Message: wrong.Message,
			Err:     err,
		}
	}
	if err != nil {
		return set, err
	}
	if err := c.requireOrganization(ctx, "id", in.Organization); err != nil {
		return set, err
	}
	by.Organization = in.Organization
	lost, err := c.lostCertificate(ctx, in.Organization)
	if err != nil {
		return set, err
	}
	id := uuid.New()
	sealed, err := c.sealNew(ctx, id, read.Key)
	if err != nil {
		return set, err
	}
	out, err := clientcertificate.Aggregate.Execute(ctx, c.Store, in.Organization, clientcertificate.SetCertificate{
		Certificate: clientcertificate.Certificate{
			ID:          id,
			Chain:       read.Chain,
			Subject:     read.Subject,
			Issuer:      read.Issuer,
			Serial:      read.Serial,
			Fingerprint: read.Fingerprint,
			NotBefore:   read.NotBefore,
			NotAfter:    read.NotAfter,
			Key:         sealed,
		},
		Lost: lost, At: c.now(),
	}, clientcertificate.Options{Metadata: by.metadata()})
	if err != nil {
		return set, err // it may have been recorded: then the key has to stay
	}
	ended := c.shredEnded(ctx, out.Events)
	set = resultOf(id, out.Loaded)
	set.Created = len(out.Events) > ended
	if out.State.Certificate.ID != id { // it was shown already, and nothing was recorded of this one
		_ = c.Vault.Shred(ctx, id)
	}
	return set, nil
}

// sealNew seals a private key for a new owner.
func (c *Commands) sealNew(ctx context.Context, owner uuid.UUID, plain []byte) ([]byte, error) {
	if err := c.Vault.Create(ctx, owner); err != nil {
		return nil, err
	}
	return c.Vault.Seal(ctx, owner, sealing.PrivateKey, plain)
}

// lostCertificate is the certificate that an organization shows where its private key can't be opened any more.
func (c *Commands) lostCertificate(ctx context.Context, organization uuid.UUID) (lost uuid.UUID, err error) {
	known, err := clientcertificate.Aggregate.Load(ctx, c.Store, organization)
	if err != nil || !known.State.Exists() {
		return lost, err
	}
	shown := known.State.Certificate
	_, err = c.Vault.Open(ctx, shown.ID, sealing.PrivateKey, shown.Key)
	if keyLost(err) {
		return shown.ID, nil
	}
	return lost, err
}

// RemoveClientCertificate ends that an organization shows a certificate. Its private key is shredded.
func (c *Commands) RemoveClientCertificate(
	ctx context.Context, by Caller, in RemoveClientCertificate,
) (Result[clientcertificate.State], error) {
	by.Organization = in.Organization
	out, err := clientcertificate.Aggregate.Execute(ctx, c.Store, in.Organization, clientcertificate.Remove{At: c.now()},
		clientcertificate.Options{Metadata: by.metadata()})
	c.shredEnded(ctx, out.Events)
	return resultOf(in.Organization, out.Loaded), refused(err)
}

// shredEnded shreds the data keys of certificates that ended, and counts them. If that fails, or this process dies
// before, the cascade of deletions does it.
func (c *Commands) shredEnded(ctx context.Context, events []clientcertificate.Event) (ended int) {
	for _, event := range events {
		if id := clientcertificate.Ended(event); id != uuid.Nil {
			_ = c.Vault.Shred(ctx, id)
			ended++
		}
	}
	return ended
}
