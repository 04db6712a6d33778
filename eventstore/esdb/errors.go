package esdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"carillon/eventstore"
)

// refusal is what a server answered in place of a result, or gRPC where there was no answer.
type refusal struct {
	code    codes.Code
	message string
	trailer metadata.MD // by which servers tell errors apart
}

// Error is the status alone.
func (r *refusal) Error() string { return r.code.String() + ": " + r.message }

// refused makes a refusal of a call's error.
func refused(err error, trailer metadata.MD) error {
	if err == nil {
		return nil
	}
	described, _ := status.FromError(err)
	return &refusal{code: described.Code(), message: described.Message(), trailer: trailer}
}

// ended is the error by which a stream ended, with its trailer.
func ended(call grpc.ClientStream, err error) error { return refused(err, call.Trailer()) }

// Values of the trailer "exception".
const (
	notLeader     = "not-leader"
	streamDeleted = "stream-deleted"
)

func (r *refusal) trailing(key string) string {
	if values := r.trailer.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// leader is the address that a member which does not lead refers to; "" where it does not say so.
func leader(err error) string {
	var r *refusal
	if !errors.As(err, &r) || r.trailing("exception") != notLeader {
		return ""
	}
	host, port := r.trailing("leader-endpoint-host"), r.trailing("leader-endpoint-port")
	if host == "" || port == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

func codeOf(err error) codes.Code {
	var r *refusal
	if errors.As(err, &r) {
		return r.code
	}
	return codes.Unknown
}

func errClosed() error { return fmt.Errorf("%w: closed", eventstore.ErrUnavailable) }

func refusedUs(err error) error {
	return fmt.Errorf("%w: it refuses the user or the password: %w", eventstore.ErrRefused, err)
}

// invalidPosition reports whether a server refused a position of $all: 23.10 by Unknown, later ones by InvalidArgument where
// a subscription begins there.
func invalidPosition(r *refusal) bool {
	if r.code != codes.Unknown && r.code != codes.InvalidArgument {
		return false
	}
	return strings.Contains(strings.ReplaceAll(strings.ToLower(r.message), " ", ""), "invalidposition")
}

// translate maps what went wrong to the program's errors, once.
func translate(err error) error {
	var r *refusal
	switch {
	case err == nil:
		return nil
	case errors.Is(err, eventstore.ErrUnavailable), errors.Is(err, eventstore.ErrRefused), errors.Is(err, eventstore.ErrTooLarge),
		errors.Is(err, eventstore.ErrWrongRevision), errors.Is(err, eventstore.ErrStreamDeleted):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), !errors.As(err, &r):
		return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
	case r.trailing("exception") == streamDeleted:
		return eventstore.ErrStreamDeleted
	}
	if invalidPosition(r) {
		return fmt.Errorf("%w: %w", eventstore.ErrInvalidPosition, err)
	}
	switch r.code {
	case codes.Unauthenticated, codes.PermissionDenied:
		return refusedUs(err)
	case codes.InvalidArgument:
		if strings.Contains(strings.ToLower(r.message), "exceed") { // "Maximum Append Size of … Exceeded"
			return fmt.Errorf("%w: %w", eventstore.ErrTooLarge, err)
		}
		return err
	case codes.Unimplemented:
		return err
	case codes.ResourceExhausted:
		if strings.Contains(strings.ToLower(r.message), "disk is full") { // a node of ours
			return fmt.Errorf("%w: %w", eventstore.ErrFull, err)
		}
		return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
	case codes.Canceled: // by the caller, by Close, or because the connection was given up
		return fmt.Errorf("%w: the connection was given up", eventstore.ErrUnavailable)
	case codes.DeadlineExceeded: // gRPC's word for a context's deadline; callers look for the context's
		return fmt.Errorf("%w: %w: %w", eventstore.ErrUnavailable, context.DeadlineExceeded, err)
	default:
		return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
	}
}
