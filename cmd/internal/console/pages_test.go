package console

import (
	"io"
	"testing"
)

func TestPagesWrite_unknownTemplate(t *testing.T) {
	t.Parallel()
	c, err := New(Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.pages.write(io.Discard, "none", "frame.html", nil); err == nil {
		t.Error("a page that is not there was written")
	}
}
