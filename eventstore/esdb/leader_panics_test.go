package esdb

import (
	"errors"
	"testing"

	"carillon/eventstore/panics"
)

// A panic in the search for the leader fails the search, and not the process; the next one is delayed.
func TestSearch_survivesAPanic(t *testing.T) {
	t.Parallel()
	s := &connection{} // without a logger, a context and addresses
	found := <-s.search("member")
	if _, panicked := errors.AsType[*panics.Error](found.Err); !panicked {
		t.Errorf("found %v, %v", found.Val, found.Err)
	}
}
