package timing

import "time"

// Window limits expansions without an end.
type Window struct {
	From, To time.Time
	// Visited is a time of the visit, of which the month counts. Optional. Default: a month after From.
	Visited time.Time
}

// Month returns the first day of the month of the visit.
func (w Window) Month() time.Time {
	if w.Visited.IsZero() {
		return w.From.AddDate(0, monthsBack, 0)
	}
	return WindowAt(w.Visited).Month()
}

const (
	monthsBack  = 1
	monthsAhead = 14
)

// WindowAt returns the window around now: from the first day of the month before to the end of a month a year ahead.
// It is the same for all times of a month.
func WindowAt(now time.Time) Window {
	y, m, _ := now.UTC().Date()
	return Window{
		From: time.Date(y, m-monthsBack, 1, 0, 0, 0, 0, time.UTC),
		To:   time.Date(y, m+monthsAhead, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Firm returns the end of the window of the month before. Dates beyond it appear as time passes.
func Firm(now time.Time) time.Time { return WindowAt(now).To.AddDate(0, -1, 0) }

// Key names the window. It differs between windows.
func (w Window) Key() string { return w.From.Format("2006-01") }

// clip returns the days, counted from first, that lie in the window, at least one.
func (w Window) clip(first time.Time, days int) (from, to int) {
	from = min(max(daysBetween(first, w.From), 0), days-1)
	to = max(min(daysBetween(first, w.To), days), from+1)
	return from, to
}
