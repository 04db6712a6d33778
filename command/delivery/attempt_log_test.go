package delivery

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/publication"
)

var sent = &Job{
	ID:          uuid.UUID{5},
	Destination: uuid.UUID{3},
	Body:        &Body{Event: uuid.UUID{2}, Published: publication.Published{Type: "news.item.added", Data: []byte(`{"private":"topsecret"}`)}},
}

func outcome(reason string, status int) delivery.Attempted {
	return delivery.Attempted{Number: 2, Outcome: delivery.Outcome{
		ResponseStatus: status, FailureReason: reason, ErrorMessage: "topsecret", ResponseBody: []byte("topsecret"), DurationMicros: 12_000,
	}}
}

func logged(t *testing.T, level slog.Level, write func(*attemptLog)) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	write(&attemptLog{log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))})
	if strings.Contains(out.String(), "topsecret") {
		t.Errorf("the log tells what it must not: %s", out.String())
	}
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	return lines
}

func TestEachAttemptIsOneLine(t *testing.T) {
	t.Parallel()
	lines := logged(t, slog.LevelDebug, func(l *attemptLog) {
		failed := outcome("http_status", 503)
		failed.NextAttemptAt = noon
		l.write(t.Context(), sent, failed)
		l.write(t.Context(), sent, outcome("", 204))
		failed = outcome("timeout", 0)
		failed.Status = delivery.StatusFailed
		l.write(t.Context(), sent, failed)
	})
	for _, line := range lines {
		delete(line, "time")
	}
	want := []map[string]any{{
		"level": "INFO", "msg": "delivery attempted", "destination": sent.Destination.String(), "delivery": sent.ID.String(),
		"event": sent.Body.Event.String(), "type": "news.item.added", "attempt": 2.0, "outcome": "http_status", "status": 503.0,
		"duration": 12e6, "next": "2026-11-21T12:00:00Z",
	}, {
		"level": "DEBUG", "msg": "delivery attempted", "destination": sent.Destination.String(), "delivery": sent.ID.String(),
		"event": sent.Body.Event.String(), "type": "news.item.added", "attempt": 2.0, "outcome": "succeeded", "status": 204.0,
		"duration": 12e6,
	}, {
		"level":       "WARN",
		"msg":         "delivery failed permanently",
		"destination": sent.Destination.String(),
		"delivery":    sent.ID.String(),
		"event":       sent.Body.Event.String(),
		"type":        "news.item.added",
		"attempt":     2.0,
		"outcome":     "timeout",
		"status":      0.0,
		"duration":    12e6,
	}}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if quiet := logged(t, slog.LevelInfo, func(l *attemptLog) { l.write(t.Context(), sent, outcome("", 204)) }); len(quiet) > 0 {
		t.Errorf("a success is told at info: %v", quiet)
	}
}

func TestUnderLoadLinesAreLeftOutAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lines := logged(t, slog.LevelInfo, func(l *attemptLog) {
			for range 1000 {
				l.write(t.Context(), sent, outcome("timeout", 0))
			}
			<-time.After(time.Second)
			l.write(t.Context(), sent, outcome("timeout", 0))
		})
		if len(lines) != attemptLines+1 {
			t.Fatalf("%d lines, want %d and one more", len(lines), attemptLines)
		}
		if got := lines[attemptLines]["leftOut"]; got != 1000.0-attemptLines {
			t.Errorf("the line after says that %v were left out, want %d", got, 1000-attemptLines)
		}
	})
}
