package console

import (
	"io"
	"strings"
	"testing"
)

// TestPagesAreMadeWhenTheyAreShown: a console that nobody looks at holds none, and every file is a template.
func TestPagesAreMadeWhenTheyAreShown(t *testing.T) {
	t.Parallel()
	c, err := New(Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.pages.made); n != 0 {
		t.Errorf("%d pages are made before anybody looks", n)
	}
	files, err := templates.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		page, err := c.pages.of(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again, _ := c.pages.of(name); again != page {
			t.Errorf("%s is made twice", name)
		}
	}
	if err := c.pages.write(io.Discard, "none", "frame.html", nil); err == nil {
		t.Error("a page that is not there was written")
	}
}
