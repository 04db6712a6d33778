package source

import "time"

// The schedule: a source that changed is visited twice as soon the next time, one that did not a half later, within
// bounds. One that fails is left alone for longer each time.
const (
	// FirstInterval is that of a source of which nothing is known.
	FirstInterval = 30 * time.Minute
	// CredentialsInterval is for one that lets nobody in, ScriptsInterval for one that shows nothing without scripts:
	// sites are rewritten at times, but not by the hour.
	CredentialsInterval = time.Hour
	ScriptsInterval     = 12 * time.Hour

	minInterval  = 10 * time.Minute
	maxInterval  = 24 * time.Hour
	firstBackOff = 5 * time.Minute
	tolerance    = 0.1 // of an interval, so that sources registered together drift apart
)

// Adapt gives the interval that follows a walk which found changes, or none.
func Adapt(interval time.Duration, changed bool) time.Duration {
	if changed {
		return max(interval/2, minInterval)
	}
	return max(min(interval*3/2, maxInterval), minInterval)
}

// BackOff is how long a source is left alone after so many failures in a row, and at least as long as it asked for.
func BackOff(failures int, asked time.Duration) time.Duration {
	wait := firstBackOff
	for range failures - 1 {
		if wait >= maxInterval {
			break
		}
		wait *= 2
	}
	return min(max(wait, asked), maxInterval)
}

// Spread lengthens an interval by at most the tolerance, in whole seconds. The share, 0 to 1, is the source's own.
func Spread(interval time.Duration, share float64) time.Duration {
	share = min(max(share, 0), 1)
	return (interval + time.Duration(float64(interval)*tolerance*share)).Truncate(time.Second)
}
