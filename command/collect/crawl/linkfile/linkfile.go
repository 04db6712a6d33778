// Package linkfile reads files that list pages: sitemaps and indexes of them, feeds (RSS, Atom) and plain text.
//
//	body ──▶ gzip? ──▶ charset ──▶ elements or lines ──▶ entries
//
// A file is read while it arrives and is not stored, so that its length costs time and no memory. Files with wrong
// namespaces, invalid bytes or a missing end are read as far as possible. Entities and declarations are not followed.
package linkfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/fetch"
)

// MaxBytes limits a file, compressed and decompressed (sitemaps.org has the same limit).
const MaxBytes = 50 << 20

// Kind is the kind of an entry's file.
type Kind int

// Kinds of entries.
const (
	// Page is an entry of a sitemap, or a line of a text.
	Page Kind = iota + 1
	// File is an entry of an index: another file.
	File
	// Post is an entry of a feed.
	Post
)

// Entry is an address that a file lists.
type Entry struct {
	Kind Kind
	// Address is the unchecked address as written.
	Address string
	// Modified is the time of the last change as written; "" if it is not a date. The date of a post is not such a time.
	Modified string
	// Versions are the languages and unchecked addresses of the page's versions, with its own. Optional.
	Versions [][2]string
	// Title and Dates are those of a post about an event: start, end and place in the words of the feed. Optional.
	Title              string
	Start, End, Place  string
	startHour, endHour string
}

// Result is the end of a reading.
type Result struct {
	// Bytes is the length of the read part of the file.
	Bytes int
	// Cut is the reason why the file was not read to its end, or was incomplete; "" if it was complete.
	Cut string
}

// Read calls each with the entries of a file, until that returns false. It fails with collect.ErrUnsupportedContent
// for another kind of file, and with the error of body.
func Read(b *budget.Budget, body io.Reader, contentType string, each func(Entry) bool) (Result, error) {
	f := &file{budget: b, each: each, body: &fetch.Watched{Body: body}}
	err := f.read(contentType)
	result := Result{Bytes: f.bytes, Cut: f.cut}
	var lengths *tooLong
	switch {
	case errors.Is(err, collect.ErrUnsupportedContent) && f.body.Err == nil && b.Err() == nil:
		return result, err
	case err == nil || errors.Is(err, io.EOF):
	case errors.As(err, &lengths):
		result.Cut = lengths.what
	case b.Err() != nil:
		if !errors.Is(b.Err(), collect.ErrTooComplex) {
			return result, fmt.Errorf("read list of pages: %w", b.Err())
		}
		result.Cut = "reading it takes more work than a file may cost"
	case errors.Is(err, collect.ErrTooLarge), errors.Is(f.body.Err, collect.ErrTooLarge):
		result.Cut = fmt.Sprintf("it is larger than %d MB", MaxBytes>>20)
	case f.body.Err != nil:
		return result, fmt.Errorf("read list of pages: %w", f.body.Err)
	default:
		result.Cut = "it can't be read from byte " + strconv.Itoa(f.bytes) + " on"
	}
	return result, nil
}

// tooLong is a part of a file that exceeds a limit.
type tooLong struct{ what string }

func (e *tooLong) Error() string { return e.what }

// file is a file that is being read.
type file struct {
	budget *budget.Budget
	each   func(Entry) bool
	body   *fetch.Watched
	text   *bufio.Reader // in UTF-8
	bytes  int
	cut    string
	ended  bool // each has returned false
}

const (
	// glimpse is the length of the beginning that identifies a file.
	glimpse = 1024
	// maxZipped limits the nested compressions of a file.
	maxZipped = 2
)

func (f *file) read(contentType string) error {
	raw := bufio.NewReaderSize(f.body, 32<<10)
	for range maxZipped {
		if head, _ := raw.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
			break
		}
		unzipped, err := gzip.NewReader(raw)
		if err != nil {
			return fmt.Errorf("read gzip: %w", err)
		}
		raw = bufio.NewReaderSize(&fetch.Capped{Body: unzipped, Left: MaxBytes}, 32<<10)
	}
	head, _ := raw.Peek(glimpse)
	if len(head) == 0 {
		_, err := raw.ReadByte()
		return fmt.Errorf("%w: it is empty: %w", collect.ErrUnsupportedContent, err)
	}
	f.text = bufio.NewReaderSize(transform.NewReader(raw, transform.Chain(decoder(head, contentType), runes.Map(legal))),
		32<<10)
	start, _ := f.text.Peek(glimpse)
	start = start[:len(start)-len(partial(start))]
	skip := len(start) - len(bytes.TrimLeft(start, " \t\r\n\ufeff"))
	if at := beginning.FindIndex(start); at != nil {
		skip = at[0] // after output of a program before the file
	}
	_, _ = f.text.Discard(skip)
	if skip < len(start) && start[skip] == '<' {
		return f.elements()
	}
	return f.lines()
}

// beginning matches the beginning of a file of elements.
var beginning = regexp.MustCompile(`<\?xml\s|<(?:[A-Za-z]+:)?(?:urlset|sitemapindex|rss|RDF|feed)[\s>]`)

// partial returns the incomplete rune at the end of a text.
func partial(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return nil
			}
			return tail
		}
	}
	return nil
}

// declared matches the charset in an XML declaration.
var declared = regexp.MustCompile(`^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// decoder returns a decoder for the charset of a file, by its byte order mark, its beginning, its declaration and the
// header of the server, in that order. Invalid bytes become U+FFFD.
func decoder(head []byte, contentType string) transform.Transformer {
	utf16 := func(order unicode.Endianness) transform.Transformer {
		return unicode.UTF16(order, unicode.UseBOM).NewDecoder()
	}
	switch {
	case bytes.HasPrefix(head, []byte{0xEF, 0xBB, 0xBF}):
		return unicode.UTF8BOM.NewDecoder()
	case bytes.HasPrefix(head, []byte{0xFE, 0xFF}), bytes.HasPrefix(head, []byte{0, '<'}):
		return utf16(unicode.BigEndian)
	case bytes.HasPrefix(head, []byte{0xFF, 0xFE}), bytes.HasPrefix(head, []byte{'<', 0}):
		return utf16(unicode.LittleEndian)
	}
	label := ""
	if _, params, err := mime.ParseMediaType(contentType); err == nil {
		label = params["charset"]
	}
	if found := declared.FindSubmatch(head); found != nil {
		label = string(found[1])
	}
	// It begins in ASCII, whatever it declares.
	if wide := strings.HasPrefix(strings.ToLower(label), "utf-16") || strings.HasPrefix(strings.ToLower(label),
		"iso-10646"); !wide {
		if e, _ := charset.Lookup(label); e != nil && e != encoding.Nop && e != encoding.Replacement {
			return e.NewDecoder()
		}
	}
	return unicode.UTF8.NewDecoder()
}

// legal replaces runes that XML forbids.
func legal(r rune) rune {
	switch {
	case r == '\t', r == '\n', r == '\r':
		return r
	case r < 0x20, r >= 0xD800 && r <= 0xDFFF, r == 0xFFFE, r == 0xFFFF:
		return utf8.RuneError
	}
	return r
}

// give passes an entry on, and reports whether to continue.
func (f *file) give(e Entry) bool {
	e.Address = strings.TrimSpace(e.Address)
	if e.Address == "" {
		return true
	}
	if !f.each(e) {
		f.ended = true
	}
	return !f.ended
}

const (
	// maxLine limits a line of a text, in bytes.
	maxLine = 64 << 10
	// maxInvalid is the number of lines without an address after which a file is not a list.
	maxInvalid = 10
)

// lines reads a text with one address in each line. It skips other lines.
func (f *file) lines() error {
	good, bad := 0, 0
	for {
		line, err := f.line()
		text := strings.TrimSpace(line)
		switch lower := strings.ToLower(text[:min(len(text), 8)]); {
		case text == "" || text[0] == '#':
		case strings.HasPrefix(lower, "http:") || strings.HasPrefix(lower, "https:") || strings.HasPrefix(lower, "file:"):
			good++
			if !f.give(Entry{Kind: Page, Address: text}) {
				return nil
			}
		default:
			if bad++; good == 0 && bad == maxInvalid {
				return fmt.Errorf("%w: it lists no pages", collect.ErrUnsupportedContent)
			}
		}
		switch {
		case err != nil && good == 0 && errors.Is(err, io.EOF):
			return fmt.Errorf("%w: it lists no pages", collect.ErrUnsupportedContent)
		case err != nil:
			return err
		}
	}
}

func (f *file) line() (string, error) {
	var line []byte
	for {
		part, err := f.text.ReadSlice('\n')
		f.bytes += len(part)
		if !f.budget.Work(4 + len(part)/16) {
			return "", f.budget.Err() //nolint:wrapcheck // Read looks at the budget
		}
		if len(line) < maxLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(line), err //nolint:wrapcheck // Read says what it is
		}
	}
}
