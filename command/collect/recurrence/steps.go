package recurrence

import "errors"

// ErrSteps says that a walk was ended because it took too many steps.
var ErrSteps = errors.New("recurrence takes too much work")

// Steps is asked before so many steps are taken whether to go on, as a page's budget is.
type Steps interface{ Work(n int) bool }

// Allowance is a part of what a page may cost, so that one rule can't use up the whole.
type Allowance struct {
	Of   Steps
	Left int
}

// Work takes the steps off both.
func (a *Allowance) Work(n int) bool {
	a.Left -= n
	return a.Left >= 0 && a.Of.Work(n)
}
