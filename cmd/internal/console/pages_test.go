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
