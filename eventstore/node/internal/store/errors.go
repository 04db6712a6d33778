package store

import (
	"errors"
	"fmt"
)

// Errors that callers distinguish with errors.Is.
var (
	// ErrStreamDeleted means that the stream was tombstoned, or soft-deleted if it must exist.
	ErrStreamDeleted = errors.New("stream is deleted")
	// ErrFull means that the disk has too little space left; nothing was written.
	ErrFull = errors.New("disk is full")
	// ErrReadOnly means that the store was opened for reading alone.
	ErrReadOnly = errors.New("store is read-only")
	// ErrFailed means that a write failed in a way that makes every further answer doubtful.
	ErrFailed = errors.New("store has failed")
	// ErrClosed means that the store is closing or closed.
	ErrClosed = errors.New("store is closed")
	// ErrCorrupt means that stored bytes do not decode or do not agree with each other.
	ErrCorrupt = errors.New("corrupt data")
	// ErrInvalid means that a request can never succeed unchanged.
	ErrInvalid = errors.New("invalid request")
	// ErrNotFound means that a single record looked for does not exist or is no longer readable.
	ErrNotFound = errors.New("not found")
)

// WrongRevisionError refuses a write whose expectation does not hold.
type WrongRevisionError struct {
	Stream   string
	Expected Expected
	// Current is the last revision, or -1 if the stream has no events.
	Current int64
}

func (e *WrongRevisionError) Error() string {
	return fmt.Sprintf("wrong expected revision of stream %q: expected %s, current %d", e.Stream, e.Expected, e.Current)
}
