package esdb

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"carillon/eventstore"
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
		if !errors.Is(got, context.DeadlineExceeded) || !errors.Is(got, eventstore.ErrUnavailable) {
			t.Errorf("%v became %v, want unavailable by the deadline", err, got)
		}
	}
}
