package recurrence

import "errors"

// ErrSteps is returned for a walk that took too many steps.
var ErrSteps = errors.New("recurrence takes too much work")

// Steps limits a walk, as a page's budget does. Work is called before n steps, and reports whether to continue.
type Steps interface{ Work(n int) bool }

// Allowance is a part of a page's budget, so that one rule can't use all of it. A step of a walk takes some ten
// nanoseconds, so four count as one of the page's.
type Allowance struct {
	Of   Steps
	Left int
	// owed are steps that are not counted yet.
	owed int
}

const pageStep = 4

// Work subtracts the steps from both.
func (a *Allowance) Work(n int) bool {
	a.Left -= n
	a.owed += n
	whole := a.owed / pageStep
	a.owed %= pageStep
	return a.Left >= 0 && a.Of.Work(whole)
}
