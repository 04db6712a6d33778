package sending

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/publication"
	"carillon/command/delivery/schedule"
	"carillon/command/sampling"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestGoneEndsRetries(t *testing.T) {
	t.Parallel()
	d := &Deliverer{Jitter: func() float64 { return 0 }}
	for status, never := range map[int]bool{410: true, 404: false, 503: false} {
		attempt := d.outcome(&schedule.Delivery{Body: &Body{}}, delivery.Automatic, noon,
			webhook.Result{StatusCode: status, FailureReason: "http_status"}, answer{})
		assert.Equal(t, attempt.Retry.Never, never, "%d: never again", status)
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
		assert.Equal(t, d.holds(t.Context(), &tt.held), tt.want, "%s: holds", name)
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
		assert.True(t, wait == c.want && is == c.is, "%d with %s: %s, %v", c.status, c.after, wait, is)
	}
}

var sent = &schedule.Delivery{
	Event:       uuid.UUID{2},
	ID:          uuid.UUID{5},
	Destination: uuid.UUID{3},
	Body: &Body{Event: uuid.UUID{2},
		Published: publication.Published{Type: "news.item.added", Data: []byte(`{"private":"topsecret"}`)}},
}

func outcome(reason delivery.Failure, status int) delivery.Attempted {
	return delivery.Attempted{Number: 2, Outcome: delivery.Outcome{
		ResponseStatus: status,
		FailureReason:  reason,
		ErrorMessage:   "topsecret",
		ResponseBody:   []byte("topsecret"),
		DurationMicros: 12_000,
	}}
}

func logged(t *testing.T, level slog.Level, write func(*slog.Logger)) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	lineWriter := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})
	write(slog.New(sampling.New(lineWriter, attemptLines)))
	assert.True(t, !strings.Contains(out.String(), "topsecret"), "the log has private values: %s", out.String())
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		must.OK(t, json.Unmarshal([]byte(line), &fields))
		lines = append(lines, fields)
	}
	return lines
}

func TestAttemptLog_oneLineEach(t *testing.T) {
	t.Parallel()
	lines := logged(t, slog.LevelDebug, func(l *slog.Logger) {
		failed := outcome("http_status", 503)
		failed.NextAttemptAt = noon
		logAttempt(t.Context(), l, sent, failed)
		logAttempt(t.Context(), l, sent, outcome("", 204))
		failed = outcome("timeout", 0)
		failed.Status = delivery.StatusFailed
		logAttempt(t.Context(), l, sent, failed)
	})
	for _, line := range lines {
		delete(line, "time")
	}
	line := func(level, msg, outcome string, status float64) map[string]any {
		return map[string]any{
			"level": level, "msg": msg, "destination": sent.Destination.String(), "delivery": sent.ID.String(),
			"event": sent.Event.String(), "type": "news.item.added", "attempt": 2.0, "outcome": outcome,
			"status": status, "duration": 12e6,
		}
	}
	want := []map[string]any{
		line("INFO", "delivery attempted", "http_status", 503),
		line("DEBUG", "delivery attempted", "succeeded", 204),
		line("WARN", "delivery failed permanently", "timeout", 0),
	}
	want[0]["next"] = "2026-11-21T12:00:00Z"
	assert.Same(t, lines, want)
	if quiet := logged(t, slog.LevelInfo,
		func(l *slog.Logger) { logAttempt(t.Context(), l, sent, outcome("", 204)) }); len(quiet) > 0 {
		t.Errorf("a success is logged at info: %v", quiet)
	}
}

func TestAttemptLog_dropsAndCountsUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := logged(t, slog.LevelInfo, func(l *slog.Logger) {
			for range 1000 {
				logAttempt(t.Context(), l, sent, outcome("timeout", 0))
			}
			<-time.After(time.Second)
			synctest.Wait()
			logAttempt(t.Context(), l, sent, outcome("timeout", 0))
		})
		if most := attemptLines.Lines; len(lines) != most+2 {
			t.Fatalf("%d lines, want %d, the last one held back, and one more", len(lines), most)
		}
		if got := lines[attemptLines.Lines]["leftOut"]; got != 950.0 {
			t.Errorf("the line after them reports %v dropped, want 950", got)
		}
	})
}

// BenchmarkTracingOff measures what attempting a delivery costs more for a tracing that is off.
func BenchmarkTracingOff(b *testing.B) {
	deliverer, held := &Deliverer{}, &schedule.Delivery{Body: &Body{}}
	b.ReportAllocs()
	for b.Loop() {
		_, own, end := deliverer.traceAttempt(b.Context(), held)
		must.True(b, own == (eventstore.Trace{}) && end == nil, "a span was begun")
	}
}
