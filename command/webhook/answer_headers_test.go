package webhook

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestShownHeaders: headers are in the order of names, bounded, valid text, and without cookies and secrets.
func TestShownHeaders(t *testing.T) {
	t.Parallel()
	hide := newConcealer("https://example.org/hook/topsecret", map[string]string{"X-Key": "sesame-open"})
	got := shownHeaders(http.Header{
		"X-Id":       {"1", "2"},
		"Server":     {"nginx sesame-open"},
		"Set-Cookie": {"session=abc; Path=/"},
		"Odd":        {"\xff\x00"},
	}, hide)
	want := "odd: \ufffd\ufffd\nserver: nginx [masked]\nset-cookie: [masked]\nx-id: 1\nx-id: 2\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	many := http.Header{}
	for i := range 100 {
		many.Add("X-Many", strings.Repeat("ü", 200+i*10))
	}
	long := shownHeaders(many, nil)
	if len(long) > maxHeaders+10 || !utf8.ValidString(long) || !strings.HasSuffix(long, "…\n") {
		t.Errorf("%d bytes, ending %q", len(long), long[len(long)-20:])
	}
	if none := shownHeaders(nil, nil); none != "" {
		t.Errorf("no headers are %q", none)
	}
}
