// Package budget limits the cost of reading one page. A few bytes of foreign input can stand for millions of
// repetitions or comparisons, so each loop whose length a page decides asks its budget before it continues.
//
// A budget that is used up stays so, as the error of a bufio.Writer does: later calls return false, the loops end, and
// the caller that began the reading finds the reason in Err. It drops the incomplete result.
package budget

import (
	"context"
	"fmt"

	"carillon/command/collect"
)

const (
	// defaultWork counts steps of some 50 ns: a visited node, a comparison, a day. It is less than a second.
	defaultWork = 12_000_000
	// defaultMemory counts bytes, as estimated by the readers.
	defaultMemory = 32 << 20
	// glance is the number of steps between two checks of the context.
	glance = 4096
)

// Budget is the remaining budget of reading a page. It is not safe for concurrent use. A nil Budget has no limits.
type Budget struct {
	ended        func() error
	work, memory int
	untilGlance  int
	err          error
}

// New returns the budget of one page, which ends with the context at the latest.
func New(ctx context.Context) *Budget { return Of(ctx, defaultWork, defaultMemory) }

// Of returns a budget of work steps and memory bytes.
func Of(ctx context.Context, work, memory int) *Budget {
	return &Budget{
		ended:       ctx.Err,
		work:        work,
		memory:      memory,
		untilGlance: glance,
	}
}

// Work subtracts n steps, and reports whether to continue.
func (b *Budget) Work(n int) bool {
	if b == nil {
		return true
	}
	if b.err != nil {
		return false
	}
	if b.work -= n; b.work < 0 {
		b.err = fmt.Errorf("%w: too many steps", collect.ErrTooComplex)
		return false
	}
	if b.untilGlance -= n; b.untilGlance < 0 {
		b.untilGlance = glance
		b.err = b.ended()
	}
	return b.err == nil
}

// Memory subtracts n bytes that are needed until the page is read, and reports whether to continue.
func (b *Budget) Memory(n int) bool {
	if b == nil {
		return true
	}
	if b.err != nil {
		return false
	}
	if b.memory -= n; b.memory < 0 {
		b.err = fmt.Errorf("%w: too much to keep", collect.ErrTooComplex)
	}
	return b.err == nil
}

// Refuse ends the reading for a reason that the reader has found.
func (b *Budget) Refuse(why string) {
	if b != nil && b.err == nil {
		b.err = fmt.Errorf("%w: %s", collect.ErrTooComplex, why)
	}
}

// Err returns nil while the budget lasts; else [collect.ErrTooComplex] or the context's error.
func (b *Budget) Err() error {
	if b == nil {
		return nil
	}
	return b.err
}
