package fetch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"carillon/command/collect"
)

// Page is an answer.
type Page struct {
	// URL is the address after redirects.
	URL *url.URL
	// NotModified reports that the page is unchanged; there is no body then.
	NotModified bool
	Header      http.Header
	// MediaType is in lower case and without parameters, "" if not stated.
	MediaType string
	// Body is the decompressed body.
	Body []byte
	// Validators make the next request for this page conditional.
	Validators Validators
}

func newPage(u *url.URL, header http.Header, body []byte) *Page {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		// A bad parameter must not hide the type before it.
		mediaType, _, _ = strings.Cut(header.Get("Content-Type"), ";")
		mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	}
	return &Page{
		URL:        u,
		Header:     header,
		MediaType:  mediaType,
		Body:       body,
		Validators: Validators{}.updated(u, header),
	}
}

// Text returns the body in UTF-8, decoded by its byte order mark, the header, or the page's own declaration, in that
// order.
func (p *Page) Text() (string, error) {
	encoding, name, certain := charset.DetermineEncoding(p.Body, p.Header.Get("Content-Type"))
	// Only the beginning was examined, and windows-1252 is the last guess of the HTML standard; valid UTF-8 is hardly
	// ever anything else.
	if name == "utf-8" || !certain && (utf8.Valid(p.Body) || name == lastGuess && !namesCharset(p.Body) &&
		mostlyUTF8(p.Body)) {
		return strings.ToValidUTF8(strings.TrimPrefix(string(p.Body), "\ufeff"), "\ufffd"), nil
	}
	if !certain && name == lastGuess && !namesCharset(p.Body) {
		if likely := guessed(p.Body); likely != nil {
			encoding = likely
		}
	}
	text, err := encoding.NewDecoder().Bytes(p.Body)
	if err != nil {
		return "", fmt.Errorf("%w: decode %s: %w", collect.ErrUnsupportedContent, name, err)
	}
	return strings.TrimPrefix(string(text), "\ufeff"), nil
}

// lastGuess is the HTML standard's guess for a text without a charset.
const lastGuess = "windows-1252"

// namesCharset reports whether the beginning of a body may declare a charset.
func namesCharset(body []byte) bool {
	begin := bytes.ToLower(body[:min(len(body), 1024)])
	has := func(text string) bool { return bytes.Contains(begin, []byte(text)) }
	return has("charset") || has("<?xml") && has("encoding")
}

// mostlyUTF8 reports whether a body is UTF-8 except for a few bytes: it has at least as many multi-byte characters as
// stray bytes. Characters that windows-1252 reads as a capital or "ß" before a quote or a dash do not count.
func mostlyUTF8(body []byte) bool {
	whole, broken := 0, 0
	for i := 0; i < len(body); {
		if body[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(body[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			broken++
		case size > 2 || body[i] < 0xc6 || body[i+1] >= 0xa0:
			whole++
		}
		i += size
	}
	return whole > 0 && whole >= broken
}

// Validators make requests conditional. They are valid for the URL that answered, and are stored in cursors as JSON.
type Validators struct {
	URL          string `json:"url,omitempty"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
}

// apply makes the request conditional, if the validators are for its URL.
func (v Validators) apply(req *http.Request) bool {
	if v.URL != req.URL.String() || v.ETag == "" && v.LastModified == "" {
		return false
	}
	if v.ETag != "" {
		req.Header.Set("If-None-Match", v.ETag)
	}
	if v.LastModified != "" {
		req.Header.Set("If-Modified-Since", v.LastModified)
	}
	return true
}

// updated takes over the validators of an answer; a 304 need not repeat them.
func (v Validators) updated(u *url.URL, header http.Header) Validators {
	v.URL = u.String()
	if etag := header.Get("ETag"); etag != "" {
		v.ETag = etag
	}
	if modified := header.Get("Last-Modified"); modified != "" {
		v.LastModified = modified
	}
	return v
}

// extent is the part of a body to read, and whether the rest may be dropped. With read, that decides.
type extent struct {
	limit int64
	cut   bool
	read  func(*Page, io.Reader) error
}

// readBody reads and decompresses within the extent. It calls grow before it takes more memory than belongs to a slot.
func readBody(resp *http.Response, want extent, grow func(by int64) error) ([]byte, error) {
	if resp.ContentLength > want.limit && !want.cut {
		return nil, collect.ErrTooLarge
	}
	body, err := bodyOf(resp, want.limit)
	if err != nil {
		return nil, err
	}
	data, err := readAll(body, want.limit, grow)
	if cut := want.cut && errors.Is(err, collect.ErrTooLarge); err != nil && !cut {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return data, nil
}

// firstBytes is the initial room.
const firstBytes = 32 << 10

// readAll reads all, up to the limit.
func readAll(body io.Reader, limit int64, grow func(by int64) error) ([]byte, error) {
	data := make([]byte, 0, firstBytes)
	for {
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return data, err //nolint:wrapcheck // readBody does
		case len(data) < cap(data):
			continue
		}
		room := max(min(2*int64(cap(data)), limit+1), int64(cap(data))+1)
		if by := room - max(int64(cap(data)), ownBytes); by > 0 {
			if err := grow(by); err != nil {
				return data, err
			}
		}
		data = append(make([]byte, 0, room), data...)
	}
}

// bodyOf returns the decompressed body, which fails after the limit.
func bodyOf(resp *http.Response, limit int64) (io.Reader, error) {
	var body io.Reader = &Capped{Body: resp.Body, Left: limit}
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(body)
		if errors.Is(err, io.EOF) {
			return http.NoBody, nil // an empty body needs no gzip header
		}
		if err != nil {
			return nil, fmt.Errorf("read gzip: %w", err)
		}
		return &Capped{Body: unzipped, Left: limit}, nil
	default:
		return nil, fmt.Errorf("%w: content encoding %q", collect.ErrUnsupportedContent, encoding)
	}
}

// Watched remembers the error of a body.
type Watched struct {
	Body io.Reader
	Err  error
}

// Read implements io.Reader.
func (w *Watched) Read(p []byte) (int, error) {
	n, err := w.Body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.Err = err
	}
	return n, err //nolint:wrapcheck // an io.Reader passes io.EOF on
}

// Capped reads up to Left bytes and fails with collect.ErrTooLarge if there are more.
type Capped struct {
	Body io.Reader
	Left int64
}

// Read implements io.Reader.
func (c *Capped) Read(p []byte) (int, error) {
	if c.Left < 0 {
		return 0, collect.ErrTooLarge
	}
	if int64(len(p)) > c.Left+1 {
		p = p[:c.Left+1]
	}
	n, err := c.Body.Read(p)
	c.Left -= int64(n)
	if c.Left < 0 {
		return n - 1, collect.ErrTooLarge
	}
	return n, err //nolint:wrapcheck // an io.Reader passes io.EOF on
}

// maxRetryAfter limits pauses that would be endless.
const maxRetryAfter = 24 * time.Hour

func retryAfter(header http.Header) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	wait := time.Duration(0)
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), maxRetryAfter)
}
