package cascade

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/organization"
	"carillon/eventstore/processtest"
)

// The key of an ended certificate is shredded again, in case the request that ended it died before.
func TestCertificateCascade_shredsEndedKey(t *testing.T) {
	t.Parallel()
	held := &holding{}
	r := cascading(t, held)
	first, second := clientcertificate.Certificate{ID: uuid.New()}, clientcertificate.Certificate{ID: uuid.New()}
	processtest.Given(r.Rule, clientcertificate.Aggregate, alice,
		clientcertificate.Event(clientcertificate.Set{Certificate: first}),
		clientcertificate.Event(clientcertificate.Replaced{Certificate: second, Of: first.ID}))
	r.Then()
	if !slices.Contains(held.shredded, first.ID) || slices.Contains(held.shredded, second.ID) {
		t.Errorf("shredded: %v", held.shredded)
	}
	processtest.Given(r.Rule, clientcertificate.Aggregate, alice,
		clientcertificate.Event(clientcertificate.Removed{ID: second.ID}))
	r.Then()
	if !slices.Contains(held.shredded, second.ID) {
		t.Errorf("after the removal, shredded: %v", held.shredded)
	}
}

// A deleted organization's certificate ends with it, also if a request in flight sets one afterwards; that of
// another stays.
func TestCertificateCascade_organizationDeleted(t *testing.T) {
	t.Parallel()
	held := &holding{}
	r := cascading(t, held)
	ours, late, theirs, gone, other := clientcertificate.Certificate{ID: uuid.New()},
		clientcertificate.Certificate{ID: uuid.New()},
		clientcertificate.Certificate{ID: uuid.New()}, uuid.New(), uuid.New()
	processtest.Given(r.Rule, clientcertificate.Aggregate, gone,
		clientcertificate.Event(clientcertificate.Set{Certificate: ours}))
	processtest.Given(r.Rule, clientcertificate.Aggregate, other,
		clientcertificate.Event(clientcertificate.Set{Certificate: theirs}))
	r.Then()
	removed := clientcertificate.Aggregate.Stream(gone) + " client_certificate.removed.v1"
	processtest.Given(r.Rule, organization.Aggregate, gone, organization.Event(organization.Deleted{}))
	r.Then(removed)
	processtest.Given(r.Rule, clientcertificate.Aggregate, gone,
		clientcertificate.Event(clientcertificate.Set{Certificate: late}))
	r.Then(removed)
	if !slices.Contains(held.shredded, ours.ID) || !slices.Contains(held.shredded, late.ID) ||
		slices.Contains(held.shredded, theirs.ID) {
		t.Errorf("shredded: %v", held.shredded)
	}
}
