package posts_test

import (
	"strings"
	"testing"
	"time"

	"carillon/command/collect/budget"
	"carillon/command/collect/budget/budgettest"
	"carillon/command/collect/posts"
)

// Whatever is written, no event lies before its post or more than 18 months behind it, each has a title and says which
// words were read, and reading ends within its budget.
func FuzzRead(f *testing.F) {
	for i, l := range corpus(f, "testdata/*.txt") {
		if i%9 == 0 {
			f.Add(l.post.Text, l.post.CreatedAt.Unix(), l.post.Zone)
		}
	}
	f.Add("31.12. bis 1.1. 24:00 29. Februar 0.0.0000", int64(1795082400), "Pacific/Kiritimati")
	f.Fuzz(func(t *testing.T, text string, created int64, zone string) {
		at := time.Unix(created%253402300799, 0).UTC()
		b := budget.New(t.Context())
		found, _ := posts.Read(b, posts.Post{Text: text, Field: "text", CreatedAt: at, Zone: zone})
		if b.Err() != nil && len(text) < 1000 {
			t.Errorf("%d bytes are too complex: %v", len(text), b.Err())
		}
		for _, c := range found {
			if strings.TrimSpace(c.Title) == "" || len(c.Holdings) == 0 || len(c.Origins) == 0 {
				t.Errorf("candidate %+v", c)
			}
			for _, h := range c.Holdings {
				last := h.When.Start.Wall
				if h.When.End != nil {
					last = h.When.End.Wall
				}
				if last.Before(at.Add(-48*time.Hour)) || h.When.Start.Wall.After(at.AddDate(0, 18, 3)) || h.When.End != nil && last.Before(h.When.Start.Wall) {
					t.Errorf("%s: from %s to %s", at, h.When.Start.Wall, last)
				}
			}
		}
	})
}

// Posts made to take long end within the budget of a page.
func TestHostilePosts(t *testing.T) {
	if raced {
		t.Skip("what it costs is measured without the race detector; reading has one goroutine")
	}
	t.Parallel()
	for name, text := range map[string]string{
		"dates":     strings.Repeat("5 December 2026 at 20:00 concert. ", 3000),
		"clocks":    "concert 5 December 2026 " + strings.Repeat("20:00 ", 20000),
		"days":      strings.Repeat("1,", 50000) + "2 December",
		"signs":     strings.Repeat("(", 100000),
		"one word":  strings.Repeat("x", 200000),
		"lines":     strings.Repeat("\n", 100000) + "concert 5 December 2026",
		"numbers":   strings.Repeat("12.12.12.", 20000),
		"addresses": strings.Repeat("a.de/", 40000),
		"phones":    strings.Repeat("0 1 ", 40000),
		"sentences": strings.Repeat("So. Ab. ", 20000) + "5 December",
	} {
		began, beganCPU := time.Now(), budgettest.ProcessorTime()
		b := budget.New(t.Context())
		posts.Read(b, posts.Post{Text: text, Field: "text", CreatedAt: time.Date(2026, 11, 19, 10, 0, 0, 0, time.UTC), Zone: "Europe/Paris"})
		if took := min(time.Since(began), budgettest.ProcessorTime()-beganCPU); took > 2*time.Second {
			t.Errorf("%s took %s (%v)", name, took, b.Err())
		}
	}
}
