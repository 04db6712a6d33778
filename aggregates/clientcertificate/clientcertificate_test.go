package clientcertificate_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/eventstore/aggregatetest"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	first = clientcertificate.Certificate{
		ID:          uuid.MustParse("4e1c1c7e-7f0a-4a25-9d8b-0d5c7b8a1f10"),
		Chain:       "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		Subject:     "CN=carillon,O=Town hall",
		Issuer:      "CN=Receiver's CA",
		Serial:      "0f3a",
		Fingerprint: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		NotBefore:   noon.Add(-time.Hour),
		NotAfter:    noon.Add(90 * 24 * time.Hour),
		Key:         []byte("sealed"),
	}
	second = another(first, "7a3f5f0e-02d3-4b8f-8f47-2f4a3c0d9e21",
		"-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n")
	again = another(first, "c0ffee00-02d3-4b8f-8f47-2f4a3c0d9e21", first.Chain) // the same certificate, sealed again

	set      = clientcertificate.Set{Certificate: first, At: noon}
	replaced = clientcertificate.Replaced{Certificate: second, Of: first.ID, At: noon}
	removed  = clientcertificate.Removed{ID: first.ID, At: noon}
)

func another(c clientcertificate.Certificate, id, chain string) clientcertificate.Certificate {
	c.ID, c.Chain = uuid.MustParse(id), chain
	return c
}

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[clientcertificate.Event](t, clientcertificate.Events, set, replaced, removed)
}

func TestSetReplaceRemove(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, clientcertificate.Aggregate).
		When(clientcertificate.SetCertificate{Certificate: first, At: noon}).Then(set).
		When(clientcertificate.SetCertificate{Certificate: again, At: noon}).Then(). // it is presented already
		When(clientcertificate.SetCertificate{Certificate: second, At: noon}).Then(replaced).
		When(clientcertificate.Remove{At: noon}).Then(clientcertificate.Removed{ID: second.ID, At: noon}).
		When(clientcertificate.SetCertificate{Certificate: first, At: noon}).Then(set)
}

// A lost key is replaced by the same certificate and key, and only that one.
func TestSetCertificate_lostKey(t *testing.T) {
	t.Parallel()
	mend := clientcertificate.SetCertificate{Certificate: again, Lost: first.ID, At: noon}
	aggregatetest.Stream(t, clientcertificate.Aggregate).Of(set).
		When(mend).Then(clientcertificate.Replaced{Certificate: again, Of: first.ID, At: noon}).
		When(mend).Then()
	late := mend
	late.ID = uuid.MustParse("ab000000-02d3-4b8f-8f47-2f4a3c0d9e21")
	aggregatetest.Stream(t, clientcertificate.Aggregate).Of(set, clientcertificate.Replaced{Certificate: again,
		Of:               first.ID, At: noon}).
		When(late).Then() // another process has replaced it
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	none := clientcertificate.ErrNone
	aggregatetest.Table(t, clientcertificate.Aggregate).
		State("none").
		State("set", set).
		State("replaced", set, replaced).
		State("removed", set, removed).
		When(clientcertificate.SetCertificate{Certificate: first}, "Set", "", "Replaced", "Set").
		When(clientcertificate.SetCertificate{Certificate: second}, "Set", "Replaced", "", "Set").
		When(clientcertificate.Remove{}, none, "Removed", "Removed", none)
}
