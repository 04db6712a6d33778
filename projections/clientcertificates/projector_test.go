package clientcertificates_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/eventstore/storetest/assert"
	"carillon/projections/clientcertificates"
	"carillon/projections/projecttest"
	"carillon/query"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func certificate(name string, days int) clientcertificate.Certificate {
	return clientcertificate.Certificate{
		ID:          uuid.New(),
		Chain:       "PEM of " + name,
		Subject:     "CN=" + name,
		Issuer:      "CN=CA",
		Serial:      "0a",
		Fingerprint: "print of " + name,
		NotBefore:   noon,
		NotAfter:    noon.AddDate(0, 0, days),
		Key:         []byte("sealed"),
	}
}

func TestEachOrganizationShowsOne(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, clientcertificates.ReadModel)
	queries := &query.Queries{Pool: log.Database}
	record := func(organization uuid.UUID, events ...clientcertificate.Event) {
		projecttest.Stream(log, clientcertificate.Aggregate, organization, noon)(events...)
	}
	ours, theirs, gone := uuid.New(), uuid.New(), uuid.New()
	first, second, third, fourth := certificate("first", 10), certificate("second", 40), certificate("third", 20),
		certificate("fourth", 1)
	if _, found, err := queries.SoonestExpiry(t.Context()); err != nil || found {
		t.Errorf("of none, one expires: %v", err)
	}
	record(ours, clientcertificate.Set{Certificate: first, At: noon})
	record(theirs, clientcertificate.Set{Certificate: third, At: noon})
	record(gone, clientcertificate.Set{Certificate: fourth, At: noon}, clientcertificate.Removed{
		ID: fourth.ID,
		At: noon.Add(time.Minute),
	})
	log.Project()
	record(ours, clientcertificate.Replaced{Certificate: second, Of: first.ID, At: noon.Add(time.Hour)})
	log.Project()

	got, err := queries.ClientCertificate(t.Context(), ours)
	want := query.ClientCertificate{
		ID:          second.ID,
		Chain:       "PEM of second",
		Subject:     "CN=second",
		Issuer:      "CN=CA",
		Serial:      "0a",
		Fingerprint: "print of second",
		NotBefore:   noon,
		NotAfter:    second.NotAfter,
		SetAt:       noon.Add(time.Hour),
		SetBy:       got.SetBy,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	assert.Is(t, assert.Err(queries.ClientCertificate(t.Context(), gone)), query.ErrNotFound, "a removed one")
	list, total, err := queries.ExpiringCertificates(t.Context(), noon.AddDate(0, 0, 41), 1)
	if diff := cmp.Diff([]query.ExpiringCertificate{{
		Organization: theirs,
		Fingerprint:  "print of third",
		NotAfter:     third.NotAfter,
	}}, list); err != nil || total != 2 || diff != "" {
		t.Errorf("%d expire, %v (-want +got):\n%s", total, err, diff)
	}
	if at, found, err := queries.SoonestExpiry(t.Context()); err != nil || !found || !at.Equal(third.NotAfter) {
		t.Errorf("the first expires at %s, %v", at, err)
	}
}
