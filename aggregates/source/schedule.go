package source

import "time"

// The schedule: a source that changed is visited twice as soon the next time, one that did not a half later, within
// bounds. One that fails is left alone for longer each time.
const (
	firstInterval       = 30 * time.Minute
	minInterval         = 10 * time.Minute
	maxInterval         = 24 * time.Hour
	credentialsInterval = time.Hour
	scriptsInterval     = 12 * time.Hour // sites are rewritten at times, but not by the hour
	firstBackOff        = 5 * time.Minute
	tolerance           = 0.1 // of an interval, so that sources registered together drift apart
)

func adapt(interval time.Duration, changed bool) time.Duration {
	if changed {
		return max(interval/2, minInterval)
	}
	return min(interval*3/2, maxInterval)
}

func backOff(failures int) time.Duration {
	wait := firstBackOff
	for range failures - 1 {
		if wait >= maxInterval {
			break
		}
		wait *= 2
	}
	return min(wait, maxInterval)
}

// spread lengthens an interval by at most the tolerance, in whole seconds.
func spread(interval time.Duration, share float64) time.Duration {
	share = min(max(share, 0), 1)
	return (interval + time.Duration(float64(interval)*tolerance*share)).Truncate(time.Second)
}
