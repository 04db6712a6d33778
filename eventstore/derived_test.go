package eventstore_test

import (
	"bytes"
	"testing"

	"github.com/google/uuid"

	"carillon/eventstore"
)

func TestDerivedIDsAreUUIDsOfVersionFive(t *testing.T) {
	t.Parallel()
	namespace := uuid.New()
	for _, length := range []int{0, 1, 16, 239, 240, 241, 5000} {
		name := bytes.Repeat([]byte("n"), length)
		if got, want := eventstore.DerivedID(namespace, name), uuid.NewSHA1(namespace, name); got != want {
			t.Errorf("a name of %d bytes: %s, want %s", length, got, want)
		}
	}
	if got, want := eventstore.EventID(namespace, 12), uuid.NewSHA1(namespace, []byte("12")); got != want {
		t.Errorf("of an event: %s, want %s", got, want)
	}
}
