package tail

import (
	"slices"
	"testing"
	"time"
)

const (
	period  = 250 * time.Millisecond
	readers = 20 // more than a process has
)

// moments are those at which so many readers look, from one time on.
func moments(from time.Time, came int) []time.Time {
	all := make([]time.Time, readers)
	for i := range all {
		all[i] = from.Add(pace{linger: period}.of(int64(i+1)).until(from, came))
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func TestWhileLittleHappensAllAreWokenAtOneMoment(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 25, 8, 0, 0, 123_456_789, time.UTC)
	all := moments(from, busy-1)
	if first, last := all[0], all[readers-1]; !first.Equal(last) || !first.Equal(from.Truncate(period).Add(period)) {
		t.Errorf("from %s to %s", first, last)
	}
}

func TestWhoIsBusyHasAMomentOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Nanosecond, 100 * time.Millisecond, period - time.Nanosecond} {
		from := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC).Add(after)
		all := moments(from, busy)
		for i, at := range all {
			if wait := at.Sub(from); wait <= 0 || wait > period {
				t.Errorf("after %s: it lingers for %s", after, wait)
			}
			next := all[0].Add(period)
			if i+1 < len(all) {
				next = all[i+1]
			}
			if apart := next.Sub(at); apart < period/(2*readers) || apart > period/5 {
				t.Errorf("after %s: %s apart", after, apart)
			}
		}
	}
}

// A moment of its own comes again after a whole period, as the common one does.
func TestItsOwnMomentComesAgain(t *testing.T) {
	t.Parallel()
	p, at := pace{linger: period}.of(7), time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	at = at.Add(p.until(at, busy))
	if wait := p.until(at, busy); wait != period {
		t.Errorf("it lingers for %s", wait)
	}
}
