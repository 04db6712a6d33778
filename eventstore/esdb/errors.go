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

// refusal is the status that a server returned, or gRPC if there was no answer.
type refusal struct {
	code    codes.Code
	message string
	trailer metadata.MD // identifies errors of servers
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

// leader returns the address that a member which does not lead refers to, or "".
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

// codeOf returns the status of an error; OK if it is none of a server or of gRPC.
func codeOf(err error) codes.Code {
	var r *refusal
	if errors.As(err, &r) {
		return r.code
	}
	return codes.OK
}

func errClosed() error { return fmt.Errorf("%w: closed", eventstore.ErrUnavailable) }

func refusedUs(err error) error {
	return fmt.Errorf("%w: it refuses the user or the password: %w", eventstore.ErrRefused, err)
}

// invalidPosition reports whether a server refused a position of $all: 23.10 by Unknown, later ones by InvalidArgument
// if a subscription begins there.
func (r *refusal) invalidPosition() bool {
	return (r.code == codes.Unknown || r.code == codes.InvalidArgument) &&
		strings.Contains(strings.ReplaceAll(strings.ToLower(r.message), " ", ""), "invalidposition")
}

// translate returns the program's error for one of a call. Callers look for the context's deadline, on whichever side
// it was noticed.
func translate(err error) error {
	var r *refusal
	for _, known := range []error{
		eventstore.ErrUnavailable, eventstore.ErrRefused, eventstore.ErrTooLarge, eventstore.ErrWrongRevision,
		eventstore.ErrStreamDeleted,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	if !errors.As(err, &r) {
		return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
	}
	message := strings.ToLower(r.message)
	switch {
	case r.trailing("exception") == streamDeleted:
		return eventstore.ErrStreamDeleted
	case r.invalidPosition():
		return fmt.Errorf("%w: %w", eventstore.ErrInvalidPosition, err)
	case r.code == codes.Unauthenticated, r.code == codes.PermissionDenied:
		return refusedUs(err)
	case r.code == codes.InvalidArgument && strings.Contains(message, "exceed"): // "Maximum Append Size of … Exceeded"
		return fmt.Errorf("%w: %w", eventstore.ErrTooLarge, err)
	case r.code == codes.InvalidArgument, r.code == codes.Unimplemented:
		return err
	case r.code == codes.ResourceExhausted && strings.Contains(message, "disk is full"): // a node of ours
		return fmt.Errorf("%w: %w", eventstore.ErrFull, err)
	case r.code == codes.Canceled: // by the caller, by Close, or because the connection was given up
		return fmt.Errorf("%w: the connection was given up", eventstore.ErrUnavailable)
	case r.code == codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w: %w", eventstore.ErrUnavailable, context.DeadlineExceeded, err)
	}
	return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
}
