package posts_test

import (
	"strings"
	"testing"
	"time"

	"carillon/command/collect/budget"
	"carillon/command/collect/extract/posts"
)

// FuzzRead shows that no event precedes its post or is more than 18 months later, that each has a title and its
// origins, and that reading ends within its budget.
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
		found, _ := posts.Read(b, posts.Post{
			Text:      text,
			Field:     "text",
			CreatedAt: at,
			Zone:      zone,
		})
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
				if last.Before(at.Add(-48*time.Hour)) || h.When.Start.Wall.After(at.AddDate(0, 18, 3)) ||
					h.When.End != nil && last.Before(h.When.Start.Wall) {
					t.Errorf("%s: from %s to %s", at, h.When.Start.Wall, last)
				}
			}
		}
	})
}
