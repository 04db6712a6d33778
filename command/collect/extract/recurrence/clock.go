package recurrence

import "math/bits"

// walkClock visits the hours, minutes or seconds of the rule, and skips days, hours and minutes that the rule doesn't
// allow.
func (w *walk) walkClock() error {
	unit := unitSeconds[w.rule.Frequency]
	step := unit * int64(w.interval)
	base := floorDiv(w.start, unit) * unit
	at := base
	if w.rule.Count == 0 {
		at += max(floorDiv(w.from-base, step), 0) * step
	}
	for at < w.end {
		next, err := w.nextAllowed(at)
		if err != nil {
			return err
		}
		if next > at {
			at = base - floorDiv(base-next, step)*step // up to the next period
			continue
		}
		if goOn, err := w.pick(w.inUnit(at)); err != nil || !goOn {
			return err
		}
		at += step
	}
	return nil
}

// nextAllowed returns the first time from at in an allowed day, hour, minute and second, as far as the frequency is no
// coarser.
func (w *walk) nextAllowed(at int64) (int64, error) {
	if !w.Work(2) {
		return 0, ErrSteps
	}
	n := int(floorDiv(at, daySeconds))
	clock := at - int64(n)*daySeconds
	if !w.days.any() && !w.days.allows(n) {
		for n++; int64(n)*daySeconds < w.end && !w.days.allows(n); n++ {
			if !w.Work(1) {
				return 0, ErrSteps
			}
		}
		return int64(n) * daySeconds, nil
	}
	frequency := w.rule.Frequency
	hour, minute, second := int(clock/3600), int(clock/60%60), int(clock%60)
	switch {
	case w.hourSet != 0 && w.hourSet>>hour&1 == 0:
		return at - clock + int64(following(w.hourSet, hour, 24))*3600, nil
	case frequency <= Minutely && w.minuteSet != 0 && w.minuteSet>>minute&1 == 0:
		return at - clock%3600 + int64(following(w.minuteSet, minute, 60))*60, nil
	case frequency == Secondly && w.secondSet != 0 && w.secondSet>>second&1 == 0:
		return at - clock%60 + int64(following(w.secondSet, second, 60)), nil
	}
	return at, nil
}

// following returns the lowest member above n, or limit if there is none.
func following(s uint64, n, limit int) int {
	if s = s >> (n + 1) << (n + 1); s != 0 {
		return bits.TrailingZeros64(s)
	}
	return limit
}

// inUnit returns the candidates of the hour, minute or second.
func (w *walk) inUnit(at int64) (total int, candidate func(int) int64) {
	seconds := len(w.seconds)
	switch w.rule.Frequency {
	case Hourly:
		return len(w.minutes) * seconds, func(i int) int64 {
			return at + int64(w.minutes[i/seconds]*60+w.seconds[i%seconds])
		}
	case Minutely:
		return seconds, func(i int) int64 { return at + int64(w.seconds[i]) }
	default:
		return 1, func(int) int64 { return at }
	}
}
