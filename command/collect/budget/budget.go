// Package budget bounds what reading one page may cost. Pages are written by strangers: a few bytes can stand for
// millions of repetitions or comparisons, so each loop whose length a page decides asks its budget before it goes on.
//
// A budget that is used up stays so, as the error of a bufio.Writer does: every later question is answered with no, the
// loops end, and whoever began the reading finds the reason in Err. What was read until then is thrown away.
package budget

import (
	"context"
	"fmt"

	"carillon/command/collect"
)

const (
	// defaultWork is in steps of some 50 ns: a node visited, a comparison, a day tried. It comes to less than a second.
	defaultWork = 12_000_000
	// defaultMemory is in bytes, as estimated by those who keep something.
	defaultMemory = 32 << 20
	// glance is how many steps are taken between two looks at the context.
	glance = 4096
)

// Budget is what is left for reading a page. It is for one goroutine. A nil Budget has no bounds.
type Budget struct {
	ended        func() error
	work, memory int
	untilGlance  int
	err          error
}

// New gives the budget of one page, which ends with the context at the latest.
func New(ctx context.Context) *Budget { return Of(ctx, defaultWork, defaultMemory) }

// Of gives a budget of so many steps and bytes.
func Of(ctx context.Context, work, memory int) *Budget {
	return &Budget{
		ended:       ctx.Err,
		work:        work,
		memory:      memory,
		untilGlance: glance,
	}
}

// Work takes n steps off, and says whether to go on.
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

// Memory takes n bytes off that are about to be kept until the page is read, and says whether to go on.
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

// Refuse ends the reading for a reason that the reader found itself.
func (b *Budget) Refuse(why string) {
	if b != nil && b.err == nil {
		b.err = fmt.Errorf("%w: %s", collect.ErrTooComplex, why)
	}
}

// Err is nil as long as nothing is used up; else it is [collect.ErrTooComplex] or the context's.
func (b *Budget) Err() error {
	if b == nil {
		return nil
	}
	return b.err
}
