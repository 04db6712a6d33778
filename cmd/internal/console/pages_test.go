package console

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"carillon/eventstore/storetest/must"
)

func TestPagesWrite_unknownTemplate(t *testing.T) {
	t.Parallel()
	c := must.Get(New(Dependencies{Log: slog.New(slog.DiscardHandler)}))(t)
	if err := c.pages.write(io.Discard, "none", "frame.html", nil); err == nil {
		t.Error("a page that is not there was written")
	}
}

func TestShownPage(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"<h1>Köln</h1>\r\n\t":                   "<h1>Köln</h1>\r\n\t",
		"<h1>\u202egnp\u0085</h1>":              "<h1>⟨U+202E⟩gnp⟨U+0085⟩</h1>",
		"<textarea x>a\u200fb</textarea>\u2067": "<textarea x>a\u200fb</textarea>⟨U+2067⟩",
		"\u202e<textarea>\u202e</textarea>\n":   "⟨U+202E⟩<textarea>\u202e</textarea>\n",
	} {
		if got := shownPage(page); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

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

// Work that panics ends alone: other work begins after it, and the console ends.
func TestWorkers_surviveAPanic(t *testing.T) {
	t.Parallel()
	var w workers
	w.open(t.Context())
	done := 0
	for _, fault := range []bool{true, false} {
		_, err := w.start(func() (Work, error) { return Work{}, nil }, func(context.Context, Work) {
			if fault {
				panic("planted")
			}
			done++
		})
		if err != nil {
			t.Error(err)
		}
		w.running.Wait()
	}
	if done != 1 {
		t.Errorf("%d works were done", done)
	}
}
