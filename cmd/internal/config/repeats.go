package config

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// repeatedAfter is how long a warning keeps others of the same cause back.
const repeatedAfter = time.Minute

// repeats is a log handler that passes on one warning a minute for each message and cause, with the count of those it
// has kept back: in an outage every consumer, worker and timer warns of the same thing, thousands of times a minute.
// Warnings without an error, and all other levels, pass.
type repeats struct {
	slog.Handler
	seen *seenWarnings
}

type seenWarnings struct {
	mu sync.Mutex
	by map[string]*repeated // by message and cause
}

// repeated is a warning that has been passed on less than a minute ago.
type repeated struct {
	kept   int         // back since
	last   slog.Record // of those, with the handler that it came through
	handle func(context.Context, slog.Record) error
}

func withoutRepeats(next slog.Handler) slog.Handler {
	return repeats{Handler: next, seen: &seenWarnings{by: map[string]*repeated{}}}
}

// WithAttrs implements slog.Handler.
func (r repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	return repeats{Handler: r.Handler.WithAttrs(attrs), seen: r.seen}
}

// WithGroup implements slog.Handler.
func (r repeats) WithGroup(name string) slog.Handler {
	return repeats{Handler: r.Handler.WithGroup(name), seen: r.seen}
}

// Handle implements slog.Handler.
func (r repeats) Handle(ctx context.Context, record slog.Record) error {
	err := errorOf(record)
	if record.Level != slog.LevelWarn || err == nil {
		return r.Handler.Handle(ctx, record)
	}
	key := record.Message + "\n" + cause(err)
	r.seen.mu.Lock()
	known := r.seen.by[key]
	if known != nil {
		known.kept++
		known.last, known.handle = record.Clone(), r.Handler.Handle
	} else {
		r.seen.by[key] = &repeated{}
		time.AfterFunc(repeatedAfter, func() { r.seen.sum(key) })
	}
	r.seen.mu.Unlock()
	if known != nil {
		return nil
	}
	return r.Handler.Handle(ctx, record)
}

// sum passes on the last of what was kept back in a minute, with the count, or forgets the warning where there was
// none.
func (s *seenWarnings) sum(key string) {
	s.mu.Lock()
	known := s.by[key]
	kept, last, handle := known.kept, known.last, known.handle
	if kept == 0 {
		delete(s.by, key)
	} else {
		*known = repeated{}
		time.AfterFunc(repeatedAfter, func() { s.sum(key) })
	}
	s.mu.Unlock()
	if kept > 0 {
		last.AddAttrs(slog.Int("repeated", kept))
		_ = handle(context.Background(), last) // who logs can't be told that the log is broken
	}
}

func errorOf(record slog.Record) (found error) {
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "error" {
			found, _ = attr.Value.Any().(error)
		}
		return found == nil
	})
	return found
}

// cause is the text of the innermost error, without the numbers in it: outside it are the names of what could not be
// done, which differ from one warning to the next.
func cause(err error) string {
	for {
		switch outer := err.(type) { //nolint:errorlint // it goes through the chain itself
		case interface{ Unwrap() error }:
			if inner := outer.Unwrap(); inner != nil {
				err = inner
				continue
			}
		case interface{ Unwrap() []error }:
			if inner := outer.Unwrap(); len(inner) > 0 {
				err = inner[len(inner)-1]
				continue
			}
		}
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, err.Error())
	}
}
