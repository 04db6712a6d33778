package source

import "time"

// The schedule: the interval of a changed source is halved, that of an unchanged one grows by half, within limits. A
// failing source gets growing intervals.
const (
	// FirstInterval is the interval of a new source.
	FirstInterval = 30 * time.Minute
	// CredentialsInterval is the interval of a source that refuses access, ScriptsInterval that of a source without
	// events unless scripts run: sites are rewritten at times, but not hourly.
	CredentialsInterval = time.Hour
	ScriptsInterval     = 12 * time.Hour

	minInterval  = 10 * time.Minute
	maxInterval  = 24 * time.Hour
	firstBackOff = 5 * time.Minute
	tolerance    = 0.1 // of an interval, so that sources that were registered together drift apart
)

// Adapt returns the interval after a walk with or without changes.
func Adapt(interval time.Duration, changed bool) time.Duration {
	if changed {
		return max(interval/2, minInterval)
	}
	return max(min(interval*3/2, maxInterval), minInterval)
}

// BackOff returns the interval after a number of failures in a row, at least the requested one.
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

// Spread lengthens an interval by at most the tolerance, in whole seconds. The share, 0 to 1, is fixed for a source.
func Spread(interval time.Duration, share float64) time.Duration {
	share = min(max(share, 0), 1)
	return (interval + time.Duration(float64(interval)*tolerance*share)).Truncate(time.Second)
}
