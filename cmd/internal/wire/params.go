package wire

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// PathUUID reads a path parameter that is a UUID. The answer to another value is the route's choice: kind is BadParam
// or NotFound.
func PathUUID(r *http.Request, name string, kind Kind) (uuid.UUID, error) {
	text, err := PathText(r, name)
	id, ok := ParseUUID(text)
	switch {
	case ok && err == nil:
		return id, nil
	case kind == NotFound:
		return id, &Failure{Kind: NotFound, Issue: "not found"}
	}
	return id, Fail(kind, name, "must be a UUID")
}

// PathText reads a path parameter with its escapes resolved.
func PathText(r *http.Request, name string) (text string, err error) {
	text = chi.URLParam(r, name)
	if r.URL.RawPath != "" { // else the router went by the decoded path
		text, err = url.PathUnescape(text)
	}
	if err != nil || !storable(text) {
		return "", Fail(BadParam, name, "must be text in UTF-8, percent-encoded, without NUL")
	}
	return text, nil
}

// storable reports whether Postgres and events can hold a text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// Query reads query parameters and keeps the first thing that is wrong with them.
type Query struct {
	values  url.Values
	failure *Failure
}

// ParseQuery reads a query string. Each parameter may be given once. On the Events surface every other parameter than
// the known ones is an error that names it; on the Feeds surface it is ignored.
func (s Surface) ParseQuery(r *http.Request, known ...string) *Query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &Query{values: values}
	if err != nil {
		q.fail("query", "is not a valid query string")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names) // the same query gets the same answer
	for _, name := range names {
		switch {
		case slices.Contains(known, name):
			if len(values[name]) > 1 {
				q.fail(name, "is given twice: send it once")
			}
		case s == Events:
			const longest = 120
			if shown := []rune(name); len(shown) > longest {
				name = string(shown[:longest]) + "…"
			}
			name = cmp.Or(name, `""`)
			if len(known) == 0 {
				q.fail(name, "is not a known query parameter: this route takes none")
				continue
			}
			q.fail(name, "is not a known query parameter: use %s", strings.Join(known, ", "))
		}
	}
	return q
}

func (q *Query) fail(name, issue string, args ...any) {
	if q.failure == nil {
		q.failure = Fail(BadQuery, name, issue, args...)
	}
}

// Err is the first thing that was wrong, or nil.
func (q *Query) Err() error {
	if q.failure == nil {
		return nil
	}
	return q.failure
}

// Has reports whether a parameter was given.
func (q *Query) Has(name string) bool { return q.values.Has(name) }

// Int reads a whole number within bounds.
func (q *Query) Int(name string, missing, least, most int) int {
	if !q.values.Has(name) {
		return missing
	}
	n, err := strconv.Atoi(q.values.Get(name))
	if most == maxOffset && (errors.Is(err, strconv.ErrRange) && n > 0 || n > maxOffset) { // as far as nothing reaches
		return maxOffset
	}
	if err != nil || n < least || n > most || strings.HasPrefix(q.values.Get(name), "+") {
		if most == maxOffset {
			q.fail(name, "must be a whole number of at least %d", least)
		} else {
			q.fail(name, "must be a whole number from %d to %d", least, most)
		}
	}
	return n
}

// maxOffset keeps offsets within what Postgres can count, with a page on top. Larger ones lead to an empty page, too.
const maxOffset = 1 << 62

// Page reads limit and offset.
func (q *Query) Page(usual, most int) (limit, offset int) {
	return q.Int("limit", usual, 1, most), q.Int("offset", 0, 0, maxOffset)
}

// OneOf reads a word of a list; "" if it is missing.
func (q *Query) OneOf(name string, words ...string) string {
	word := q.values.Get(name)
	if q.values.Has(name) && !slices.Contains(words, word) {
		q.fail(name, "must be one of %s", strings.Join(words, ", "))
	}
	return word
}

// Text reads a parameter unchanged; "" if it is missing.
func (q *Query) Text(name string) string {
	text := q.values.Get(name)
	if !storable(text) {
		q.fail(name, "must be valid UTF-8 without NUL characters")
	}
	return text
}

// UUID reads an identifier; uuid.Nil if it is missing.
func (q *Query) UUID(name string) uuid.UUID {
	if !q.values.Has(name) {
		return uuid.Nil
	}
	id, ok := ParseUUID(q.values.Get(name))
	if !ok {
		q.fail(name, "must be a UUID")
	}
	return id
}

// Words reads a comma-separated list, each of the known words.
func (q *Query) Words(name string, known ...string) []string {
	if !q.values.Has(name) {
		return nil
	}
	words := strings.Split(q.values.Get(name), ",")
	for i, word := range words {
		words[i] = strings.TrimSpace(word)
		if !slices.Contains(known, words[i]) {
			q.fail(name, "must be a comma-separated list of: %s", strings.Join(known, ", "))
		}
	}
	return words
}

// Time reads an instant with Z or an offset; the zero time if it is missing.
func (q *Query) Time(name string) time.Time {
	if !q.values.Has(name) {
		return time.Time{}
	}
	at, err := ParseTime(q.instant(name))
	if err != nil {
		q.fail(name, "must be an ISO 8601 time with Z or an offset, such as 2026-11-21T12:00:00Z")
	}
	return at
}

// DateOrTime reads an instant with Z or an offset, or a date, which is its first instant in UTC, or a time without
// zone, which is in UTC.
func (q *Query) DateOrTime(name string) time.Time {
	if !q.values.Has(name) {
		return time.Time{}
	}
	text := q.instant(name)
	if at, err := ParseTime(text); err == nil {
		return at
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	q.fail(name, "must be an ISO 8601 date or time, such as 2026-11-21 or 2026-11-21T12:00:00Z")
	return time.Time{}
}

// instant is the text of a time. If the "+" of an offset was not escaped, it has become a space.
func (q *Query) instant(name string) string {
	return strings.Replace(q.values.Get(name), " ", "+", 1)
}

// Fail records that a parameter is wrong for a reason of the route's own.
func (q *Query) Fail(name, issue string, args ...any) { q.fail(name, issue, args...) }

// ParseTime reads an ISO 8601 instant with Z or an offset, seconds optional.
func ParseTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		at, err = time.Parse("2006-01-02T15:04Z07:00", text)
	}
	at = at.UTC()
	if err == nil && (at.Year() < 0 || at.Year() > 9999) {
		err = errYear
	}
	return at, err
}

// errYear: only years of four digits can be written as ISO 8601. An offset may lead out of them.
var errYear = errors.New("the year in UTC is not one of 0 to 9999")

// Accepts reports whether a caller names a media type among those that it takes.
func Accepts(r *http.Request, media string) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		named, parameters, err := mime.ParseMediaType(part)
		if err != nil || named != media {
			continue
		}
		quality, err := strconv.ParseFloat(parameters["q"], 64)
		return err != nil || quality > 0
	}
	return false
}

// With makes a Handler of one with an argument, which is read from the request first.
func With[A any](read func(*http.Request) (A, error), h func(*http.Request, A) (Reply, error)) Handler {
	return func(r *http.Request) (Reply, error) {
		a, err := read(r)
		if err != nil {
			return Reply{}, err
		}
		return h(r, a)
	}
}

// With2 is With for two arguments, which are read in this order.
func With2[A, B any](
	first func(*http.Request) (A, error), second func(*http.Request) (B, error),
	h func(*http.Request, A, B) (Reply, error),
) Handler {
	return With(first, func(r *http.Request, a A) (Reply, error) {
		return With(second, func(r *http.Request, b B) (Reply, error) { return h(r, a, b) })(r)
	})
}

// NoQuery refuses query parameters, on the Events surface, before a request is handled.
func NoQuery(h Handler) Handler {
	return func(r *http.Request) (Reply, error) {
		if err := Events.ParseQuery(r).Err(); err != nil {
			return Reply{}, err
		}
		return h(r)
	}
}

// EmptyBody refuses a body before a request is handled.
func EmptyBody(h Handler) Handler {
	return func(r *http.Request) (Reply, error) {
		if err := DecodeNothing(r); err != nil {
			return Reply{}, err
		}
		return h(r)
	}
}

// Empty is EmptyBody for a handler whose argument is read first.
func Empty[A any](h func(*http.Request, A) (Reply, error)) func(*http.Request, A) (Reply, error) {
	return func(r *http.Request, a A) (Reply, error) {
		return EmptyBody(func(r *http.Request) (Reply, error) { return h(r, a) })(r)
	}
}

// ListOf returns the shown form of each; it is never nil.
func ListOf[T, S any](all []T, shown func(T) S) []S {
	list := make([]S, len(all))
	for i, one := range all {
		list[i] = shown(one)
	}
	return list
}
