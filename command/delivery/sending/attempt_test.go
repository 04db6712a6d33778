package sending

import (
	"testing"
	"time"

	"carillon/aggregates/delivery"
	"carillon/command/delivery/schedule"
	"carillon/command/webhook"
)

func TestGoneEndsRetries(t *testing.T) {
	t.Parallel()
	d := &Deliverer{Jitter: func() float64 { return 0 }}
	for status, never := range map[int]bool{410: true, 404: false, 503: false} {
		attempt := d.outcome(&schedule.Delivery{}, delivery.Automatic, noon,
			webhook.Result{StatusCode: status, FailureReason: "http_status"}, answer{})
		if attempt.Retry.Never != never {
			t.Errorf("%d: never again %v, want %v", status, attempt.Retry.Never, never)
		}
	}
}

// losing is a queue that has lost claims so often.
type losing struct {
	claims

	losses int
}

func (l *losing) Holding() (losses int, sure bool) { return l.losses, true }

// A delivery that other workers may have taken over is not sent, except one claimed a moment ago.
func TestLostClaimsAreNotSent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		held schedule.Delivery
		want bool
	}{
		"held":            {schedule.Delivery{Losses: 2, Claimed: true}, true},
		"lost":            {schedule.Delivery{Losses: 1, Claimed: true}, false},
		"just claimed":    {schedule.Delivery{Losses: 1, QueuedAt: time.Now().Add(time.Hour)}, true},
		"claimed earlier": {schedule.Delivery{Losses: 1, QueuedAt: time.Now().Add(-time.Hour)}, false},
	} {
		d := &Deliverer{Queue: &losing{losses: 2}}
		if got := d.holds(t.Context(), &tt.held); got != tt.want {
			t.Errorf("%s: holds = %v, want %v", name, got, tt.want)
		}
	}
}

// A 429 asks for a rest, whether it says how long or not; a 503 only where it says so.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      int
		after, want time.Duration
		is          bool
	}{
		{429, 0, time.Second, true}, {429, time.Minute, time.Minute, true},
		{503, 0, 0, false}, {503, time.Minute, time.Minute, true}, {502, time.Minute, 0, false}, {204, 0, 0, false},
	} {
		wait, is := refused(webhook.Result{StatusCode: c.status, RetryAfter: c.after})
		if wait != c.want || is != c.is {
			t.Errorf("%d with %s: %s, %v", c.status, c.after, wait, is)
		}
	}
}
