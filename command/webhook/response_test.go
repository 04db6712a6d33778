package webhook

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"
)

func TestKeptText(t *testing.T) {
	t.Parallel()
	const limit = MaxBodyCharacters
	for name, test := range map[string]struct{ raw, want string }{
		"empty":        {"", ""},
		"short":        {"päron", "päron"},
		"NUL":          {"a\x00b", "a\uFFFDb"},
		"not UTF-8":    {"a\xff\xfeb", "a\uFFFD\uFFFDb"},
		"at the limit": {strings.Repeat("a", limit), strings.Repeat("a", limit)},
		"one over":     {strings.Repeat("a", limit+1), strings.Repeat("a", limit) + TruncationSuffix},
		"wide, limit":  {strings.Repeat("😀", limit), strings.Repeat("😀", limit)},
		"wide, over":   {strings.Repeat("😀", limit+1), strings.Repeat("😀", limit) + TruncationSuffix},
		"bytes, over":  {strings.Repeat("\xff", limit+1), strings.Repeat("\uFFFD", limit) + TruncationSuffix},
		"huge":         {strings.Repeat("ü", 10*limit), strings.Repeat("ü", limit) + TruncationSuffix},
	} {
		reader := strings.NewReader(test.raw)
		got := readBody(reader, reader.Size(), keptText)
		if got != test.want || !utf8.ValidString(got) {
			t.Errorf("%s: got %d characters, want %d", name, utf8.RuneCountInString(got), utf8.RuneCountInString(test.want))
		}
		if reader.Len() != 0 {
			t.Errorf("%s: %d bytes left, the connection is lost", name, reader.Len())
		}
	}
	endless := strings.NewReader(strings.Repeat("a", readBytes+drainUnknown+1))
	readBody(endless, -1, keptText)
	if endless.Len() != 1 {
		t.Errorf("read past the drain limit, %d left", endless.Len())
	}
	long := strings.NewReader(strings.Repeat("a", readBytes+drainBytes+1))
	readBody(long, long.Size(), keptText)
	if long.Len() != drainBytes+1 {
		t.Errorf("of an answer that is too long to be drained %d are left", long.Len())
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		status int
		value  string
		want   time.Duration
	}{
		{429, "120", 2 * time.Minute},
		{502, " 7 ", 7 * time.Second},
		{503, "0", 0},
		{504, "86400", 24 * time.Hour},
		{503, "86401", 24 * time.Hour},
		{503, "99999999999999999999999", 24 * time.Hour},
		{503, "-5", 0},
		{503, "1.5", 0},
		{503, "soon", 0},
		{503, "", 0},
		{503, "Sat, 21 Nov 2026 12:01:30 GMT", 90 * time.Second},
		{503, "Saturday, 21-Nov-26 12:01:30 GMT", 90 * time.Second},
		{503, "Sat Nov 21 12:01:30 2026", 90 * time.Second},
		{503, "Sat, 21 Nov 2026 11:00:00 GMT", 0},
		{503, "Sat, 28 Nov 2026 11:00:00 GMT", 24 * time.Hour},
		{500, "120", 0},
		{200, "120", 0},
		{301, "120", 0},
	} {
		header := http.Header{}
		if test.value != "" {
			header.Set("Retry-After", test.value)
		}
		if got := retryAfter(test.status, header, now); got != test.want {
			t.Errorf("%d %q: %s, want %s", test.status, test.value, got, test.want)
		}
	}
}

// asked notes how much room each read of it gave.
type asked struct {
	io.Reader

	room []int
}

func (a *asked) Read(p []byte) (int, error) {
	a.room = append(a.room, len(p))
	return a.Reader.Read(p)
}

// An answer that is slow to come holds little memory meanwhile: there may be two thousand of them.
func TestAnnouncedBodyTakesLittleMemory(t *testing.T) {
	t.Parallel()
	const text = "slow"
	slow := &asked{Reader: iotest.OneByteReader(strings.NewReader(text))}
	if got := readBody(slow, 1<<20, keptText); got != text {
		t.Errorf("got %q", got)
	}
	for _, room := range slow.room {
		if room > firstBytes {
			t.Fatalf("%d bytes wait for an answer of %d", room, len(text))
		}
	}
	for _, length := range []int{firstBytes - 1, firstBytes, firstBytes + 1, 3 * firstBytes} {
		whole := strings.Repeat("a", length)
		if got := readBody(strings.NewReader(whole), int64(length), keptText); got != whole {
			t.Errorf("of %d bytes %d are kept", length, len(got))
		}
	}
}
