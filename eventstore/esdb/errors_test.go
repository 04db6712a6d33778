package esdb

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
)

// A deadline is reported by the side that notices it first: the own context, gRPC's timer, or the server that knows of
// it. Callers look for the context's error in all cases.
func TestDeadline_sameErrorFromAnySide(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		context.DeadlineExceeded,
		refused(status.FromContextError(context.DeadlineExceeded).Err(), nil),
		refused(status.Error(codes.DeadlineExceeded, "from the server"), nil),
	} {
		got := translate(err)
		assert.True(t, errors.Is(got, context.DeadlineExceeded) && errors.Is(got, eventstore.ErrUnavailable),
			"%v became %v, want unavailable by the deadline", err, got)
	}
}

// A panic in the search for the leader fails the search, and not the process; the next one is delayed.
func TestSearch_survivesAPanic(t *testing.T) {
	t.Parallel()
	s := &connection{} // without a logger, a context and addresses
	found := <-s.search("member")
	_, panicked := errors.AsType[*panics.Error](found.Err)
	assert.True(t, panicked, "found %v, %v", found.Val, found.Err)
}
