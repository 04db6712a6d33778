package delivery

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"carillon/command/webhook"
)

// unstatedRest is the rest of a receiver that refuses requests and does not say for how long.
const unstatedRest = time.Second

// refused reports how long a receiver asks to be left alone.
func refused(result webhook.Result) (wait time.Duration, is bool) {
	switch result.StatusCode {
	case http.StatusTooManyRequests:
		return cmp.Or(result.RetryAfter, unstatedRest), true
	case http.StatusServiceUnavailable: // without Retry-After it says only that it fails
		return result.RetryAfter, result.RetryAfter > 0
	}
	return 0, false
}

// restAfter lets a destination rest whose receiver asked for that, in this process at once, and in all others.
func (d *Deliverer) restAfter(ctx context.Context, job *Job, result webhook.Result) {
	wait, is := refused(result)
	if !is || !d.rest(job, wait) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordPause)
	defer cancel()
	if err := d.Queue.Rest(ctx, job.Destination, wait); err != nil {
		d.Log.Warn("rest of a destination not shared with other processes", "destination", job.Destination, "error",
			err)
	}
}

// rest lets a destination rest in this process, and reports whether others do not know that.
func (d *Deliverer) rest(job *Job, wait time.Duration) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	return d.schedule.Rest(job.Destination, now.Add(wait), now)
}
