package console

import (
	"testing"
	"time"
)

func TestEventSpan(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 28, 23, 30, 0, 0, time.UTC)
	later, nextDay := start.Add(15*time.Minute), start.Add(2*time.Hour)
	for _, tt := range []struct {
		zone string
		end  *time.Time
		want string
	}{
		{"Europe/Rome", nil, "Sun 29 Nov 2026, 00:30, Europe/Rome"},
		{"Europe/Rome", &nextDay, "Sun 29 Nov 2026, 00:30 to 02:30, Europe/Rome"},
		{"", &later, "Sat 28 Nov 2026, 23:30 to 23:45, UTC"},
		{"Mars/Olympus", &nextDay, "Sat 28 Nov 2026, 23:30 to Sun 29 Nov 2026, 01:30, UTC"},
		{"Local", &start, "Sat 28 Nov 2026, 23:30, UTC"},
		{"../../etc/passwd", nil, "Sat 28 Nov 2026, 23:30, UTC"},
	} {
		if got := eventSpan(tt.zone, start, tt.end); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.zone, got, tt.want)
		}
	}
}
