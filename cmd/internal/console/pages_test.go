package console

import (
	"io"
	"log/slog"
	"testing"
)

func TestPagesWrite_unknownTemplate(t *testing.T) {
	t.Parallel()
	c, err := New(Dependencies{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.pages.write(io.Discard, "none", "frame.html", nil); err == nil {
		t.Error("a page that is not there was written")
	}
}
