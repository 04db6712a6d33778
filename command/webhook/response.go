package webhook

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// MaxBodyCharacters of a response are kept, then [TruncationSuffix] follows.
	MaxBodyCharacters = 10_000
	// TruncationSuffix marks a body that was cut.
	TruncationSuffix = "… [truncated]"

	// readBytes holds MaxBodyCharacters of any width, and one byte that reports whether more follows.
	readBytes = MaxBodyCharacters*utf8.UTFMax + 1
	// drainBytes are read beyond that, because a connection is reused only after its body has ended. If more follows, or
	// more than drainUnknown without an announced length, a new connection is cheaper.
	drainBytes   = 256 << 10
	drainUnknown = 128 << 10

	maxRetryAfter = 24 * time.Hour
)

// firstBytes of an answer are read before memory for the rest is allocated: most are shorter, and many are slow.
const firstBytes = 2 << 10

var (
	firstBuffers = sync.Pool{New: func() any { return new([firstBytes]byte) }}
	readBuffers  = sync.Pool{New: func() any { return new([readBytes]byte) }}
)

// readBody returns the text to keep and leaves the connection reusable if that is cheap. A body that breaks off is kept
// as far as it came. length is what was announced, and negative if nothing was.
func readBody(body io.Reader, length int64, text func([]byte) string) string {
	first, _ := firstBuffers.Get().(*[firstBytes]byte)
	defer firstBuffers.Put(first)
	n, err := io.ReadFull(body, first[:])
	if err != nil { // it has ended
		return text(first[:n])
	}
	buffer, _ := readBuffers.Get().(*[readBytes]byte)
	defer readBuffers.Put(buffer)
	copy(buffer[:], first[:])
	n, err = io.ReadFull(body, buffer[firstBytes:])
	n += firstBytes
	switch {
	case err != nil: // it has ended
	case length < 0:
		_, _ = io.CopyN(io.Discard, body, drainUnknown)
	case length <= readBytes+drainBytes:
		_, _ = io.Copy(io.Discard, body)
	}
	return text(buffer[:n])
}

// keptText cuts a body at [MaxBodyCharacters]. Bytes that are no UTF-8, and NUL, which no text column holds, become the
// replacement character.
func keptText(raw []byte) string {
	if len(raw) <= MaxBodyCharacters && utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return string(raw)
	}
	var text strings.Builder
	text.Grow(min(len(raw), MaxBodyCharacters) + len(TruncationSuffix))
	for count := 0; len(raw) > 0; count++ {
		if count == MaxBodyCharacters {
			text.WriteString(TruncationSuffix)
			break
		}
		char, size := utf8.DecodeRune(raw)
		if char == 0 {
			char = utf8.RuneError
		}
		text.WriteRune(char)
		raw = raw[size:]
	}
	return text.String()
}

// retryAfter is the wait that an overloaded endpoint asks for, at most a day; 0 if it asks for none.
func retryAfter(status int, header http.Header, now time.Time) time.Duration {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0
	}
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter // all digits, so the only error is a number too large
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(now), 0), maxRetryAfter)
}
