// Package sampling thins out the log: a flood of similar lines must not fill the disk, nor cost what it reports on.
package sampling

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"carillon/eventstore/panics"
)

// Rule says how many lines of a kind pass in a period. After it, the last of those that were held back passes, as the
// first of the next period, with the number of them.
type Rule struct {
	Lines int
	Per   time.Duration
	Count string // name of the attribute with the number
	// Kind returns what a record is one of many of; "" means that it passes. nil means that all are of one kind.
	Kind func(slog.Record) string
}

// Handler passes some of the records of each kind to another handler.
type Handler struct {
	slog.Handler

	rule Rule
	seen *seen
}

type seen struct {
	mu sync.Mutex
	by map[string]*kind
}

// kind counts the records of one kind in the current period.
type kind struct {
	passed, held int
	last         slog.Record // of those held back, with the handler that it came through
	handle       func(context.Context, slog.Record) error
}

// New returns a handler that passes records to another one.
func New(next slog.Handler, rule Rule) Handler {
	return Handler{
		Handler: next,
		rule:    rule,
		seen:    &seen{by: map[string]*kind{}},
	}
}

// WithAttrs implements slog.Handler.
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h Handler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

// Handle implements slog.Handler.
func (h Handler) Handle(ctx context.Context, record slog.Record) error {
	name := "all"
	if h.rule.Kind != nil {
		name = h.rule.Kind(record)
	}
	if name != "" && h.hold(name, record) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

// hold counts a record, and reports whether it is held back.
func (h Handler) hold(name string, record slog.Record) bool {
	h.seen.mu.Lock()
	defer h.seen.mu.Unlock()
	k := h.seen.by[name]
	if k == nil {
		k = &kind{}
		h.seen.by[name] = k
		time.AfterFunc(h.rule.Per, panics.Func("log", func() { h.next(name) }))
	}
	if k.passed < h.rule.Lines {
		k.passed++
		return false
	}
	k.held++
	k.last, k.handle = record.Clone(), h.Handler.Handle
	return true
}

// next begins the next period of a kind, or forgets the kind if nothing of it was held back.
func (h Handler) next(name string) {
	h.seen.mu.Lock()
	before := *h.seen.by[name]
	if before.held == 0 {
		delete(h.seen.by, name)
	} else {
		*h.seen.by[name] = kind{passed: 1}
		time.AfterFunc(h.rule.Per, panics.Func("log", func() { h.next(name) }))
	}
	h.seen.mu.Unlock()
	if before.held > 0 {
		before.last.AddAttrs(slog.Int(h.rule.Count, before.held))
		_ = before.handle(context.Background(), before.last) // the caller can't handle a broken log
	}
}
