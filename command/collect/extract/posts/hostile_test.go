//go:build nightly

package posts_test

import (
	"strings"
	"testing"
	"time"

	"carillon/command/collect/budget"
	"carillon/command/collect/budget/budgettest"
	"carillon/command/collect/extract/posts"
)

// Posts made for long reading end within the budget of a page.
func TestHostilePosts(t *testing.T) {
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
		posts.Read(b, posts.Post{
			Text:      text,
			Field:     "text",
			CreatedAt: time.Date(2026, 11, 19, 10, 0, 0, 0, time.UTC),
			Zone:      "Europe/Paris",
		})
		if took := min(time.Since(began), budgettest.ProcessorTime()-beganCPU); took > 2*time.Second {
			t.Errorf("%s took %s (%v)", name, took, b.Err())
		}
	}
}
