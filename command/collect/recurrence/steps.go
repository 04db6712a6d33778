package recurrence

import "errors"

// ErrSteps says that a walk was ended because it took too many steps.
var ErrSteps = errors.New("recurrence takes too much work")

// Steps is asked before so many steps are taken whether to go on, as a page's budget is.
type Steps interface{ Work(n int) bool }

// Allowance is a part of what a page may cost, so that one rule can't use up the whole. A step of a walk takes some ten
// nanoseconds, so four count as one of the page's.
type Allowance struct {
	Of   Steps
	Left int
	// owed are steps that are not counted yet.
	owed int
}

const pageStep = 4

// Work takes the steps off both.
func (a *Allowance) Work(n int) bool {
	a.Left -= n
	a.owed += n
	whole := a.owed / pageStep
	a.owed %= pageStep
	return a.Left >= 0 && a.Of.Work(whole)
}
