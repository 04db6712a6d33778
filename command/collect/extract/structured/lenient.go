package structured

import (
	"encoding/json"
	"errors"
	"html"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth limits the nesting of values. Real pages are far below.
const maxDepth = 64

// decodeJSON reads JSON with many mistakes: comments, CDATA marks, control characters in strings, missing and
// superfluous commas, unescaped, single or typographic quotes, bare words, entities for quotes, tags of an editor
// between values, several values in a row, a missing end. Numbers become json.Number.
//
// clean reports that there were no mistakes; ok is false if there is no object or array at all.
func decodeJSON(text string) (values []any, clean, ok bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	// The standard decoder has a far higher depth limit.
	if decoder.Decode(&value) == nil {
		deep := depth(value)
		if _, err := decoder.Token(); deep <= maxDepth && errors.Is(err, io.EOF) {
			return []any{value}, true, deep > 0
		}
	}
	if looksEscaped(text) {
		text = html.UnescapeString(text)
	}
	p := &lenient{text: text}
	for p.seek() {
		values = append(values, p.value(0))
	}
	return values, false, len(values) > 0
}

// depth returns the nesting of a value, 0 for one that is no object or array.
func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	case []any:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

// entities are beginnings of entities for quotes.
var entities = strings.Fields("&quot; &#34; &#034; &#x22; &#822 &#x201 &#8243; &ldquo; &rdquo; &bdquo; &laquo; " +
	"&raquo; &Prime;")

// looksEscaped reports whether the quotes themselves are entities: no quote is plain, or the first key has entities.
func looksEscaped(text string) bool {
	if !strings.Contains(text, "&") {
		return false
	}
	begins := func(text string) bool {
		return slices.ContainsFunc(entities, func(e string) bool { return strings.HasPrefix(text, e) })
	}
	p := &lenient{text: text}
	for p.seek() {
		p.pos++
		if p.space(); p.peek() == '&' {
			return begins(p.text[p.pos:])
		} else if p.peek() != '{' && p.peek() != '[' {
			break
		}
	}
	within := func(e string) bool { return strings.Contains(text, e) }
	return !strings.Contains(text, `"`) && slices.ContainsFunc(entities, within)
}

// lenient is a recursive-descent reader. Each step consumes input or ends, so that it takes linear time on any input.
type lenient struct {
	text string
	pos  int
	// within counts the open objects and arrays.
	within int
}

// seek moves to the next object or array.
func (p *lenient) seek() bool {
	for {
		p.space()
		if p.pos >= len(p.text) {
			return false
		}
		if c := p.text[p.pos]; c == '{' || c == '[' {
			return true
		}
		p.pos++
	}
}

// skipped are the comments and marks between tokens. A mark without an end is skipped by its length. Within an object
// a comment of HTML is skipped; around it, it only hides the object from old browsers.
var skipped = []struct {
	begin, end string
	inside     bool
}{
	{begin: "/*", end: "*/"}, {begin: "//", end: "\n"}, {begin: "<!--", end: "-->", inside: true},
	{begin: "<!--"}, {begin: "-->"},
	{begin: "<![CDATA["}, {begin: "]]>"}, {begin: "&nbsp;"}, {begin: "&#160;"},
}

// editorTag matches tags that editors insert into JSON.
var editorTag = regexp.MustCompile(`^(?i)</?(?:br|p|div|span|strong|em|b|i|code|pre)(?:\s[^<>]{0,200})?/?>`)

// space skips white space, comments and other marks.
func (p *lenient) space() {
again:
	for p.pos < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.pos:])
		if !unicode.IsSpace(r) && !unicode.IsControl(r) && r != '\ufeff' && r != '\u200b' {
			break
		}
		p.pos += size
	}
	for _, s := range skipped {
		if !strings.HasPrefix(p.text[p.pos:], s.begin) || s.inside && p.within == 0 {
			continue
		}
		p.pos += len(s.begin)
		if s.end != "" {
			p.after(s.end)
		}
		goto again
	}
	if p.peek() == '<' {
		if tag := editorTag.FindString(p.text[p.pos:min(len(p.text), p.pos+lookAhead)]); tag != "" {
			p.pos += len(tag)
			goto again
		}
	}
}

// after moves to the position after the mark, or to the end.
func (p *lenient) after(mark string) {
	if i := strings.Index(p.text[p.pos:], mark); i >= 0 {
		p.pos += i + len(mark)
		return
	}
	p.pos = len(p.text)
}

func (p *lenient) peek() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// value reads one value. The caller has skipped the space before it.
func (p *lenient) value(level int) any {
	switch c := p.peek(); c {
	case '{', '[':
		p.pos++
		p.within++
		defer func() { p.within-- }()
		if c == '{' {
			return p.object(level + 1)
		}
		return p.array(level + 1)
	}
	if kind, _ := p.quote(); kind != noQuote {
		return p.quoted()
	}
	return p.bare()
}

// quoteKind is the kind of a quote.
type quoteKind int

const (
	noQuote quoteKind = iota
	straightDouble
	straightSingle
	typographicDouble
	typographicSingle
)

// typographic are the quotes that editors use in place of straight ones.
var typographic = map[rune]quoteKind{
	'“': typographicDouble, '”': typographicDouble, '„': typographicDouble, '‟': typographicDouble, '″': typographicDouble,
	'«': typographicDouble, '»': typographicDouble, '‘': typographicSingle, '’': typographicSingle, '‚': typographicSingle,
	'‛': typographicSingle, '′': typographicSingle,
}

// quote returns the kind and length of the quote at the position.
func (p *lenient) quote() (kind quoteKind, size int) { return quoteOf(p.text[p.pos:]) }

func quoteOf(text string) (kind quoteKind, size int) {
	if text == "" {
		return noQuote, 0
	}
	switch c := text[0]; {
	case c == '"':
		return straightDouble, 1
	case c == '\'':
		return straightSingle, 1
	case c < utf8.RuneSelf:
		return noQuote, 0
	}
	r, size := utf8.DecodeRuneInString(text)
	return typographic[r], size
}

// closedBy reports whether a string that begins with a quote may end with another one. Editors may miss the second of
// two typographic ones.
func (k quoteKind) closedBy(o quoteKind) bool {
	switch k {
	case typographicDouble:
		return o == typographicDouble || o == straightDouble
	case typographicSingle:
		return o == typographicSingle || o == straightSingle
	default:
		return o == k
	}
}

// next skips separators and brackets of markup, and returns the byte after them; 0 at the end.
func (p *lenient) next() byte {
	for {
		p.space()
		c := p.peek()
		if c == 0 || strings.IndexByte(",:;<", c) < 0 {
			return c
		}
		p.pos++
	}
}

func (p *lenient) object(level int) any {
	object := map[string]any{}
	for {
		switch p.next() {
		case '}':
			p.pos++
			return object
		case 0, ']', '{', '[': // belongs to the surrounding value: the brace is missing
			return object
		}
		key := p.key()
		p.space()
		if p.peek() != ':' {
			continue // key without a value
		}
		p.pos++
		p.space()
		if c := p.peek(); c == ',' || c == '}' || c == ']' {
			continue // nothing after the colon
		}
		if level >= maxDepth {
			p.pos = len(p.text)
			return object
		}
		if v := p.value(level); key != "" {
			object[key] = v
		}
	}
}

func (p *lenient) array(level int) any {
	array := []any{}
	for {
		switch p.next() {
		case ']':
			p.pos++
			return array
		case 0, '}': // belongs to a surrounding object: the bracket is missing
			return array
		}
		if level >= maxDepth {
			p.pos = len(p.text)
			return array
		}
		array = append(array, p.value(level))
	}
}

func (p *lenient) key() string {
	if kind, _ := p.quote(); kind != noQuote {
		return p.quoted()
	}
	word, _ := p.word(":")
	return word
}

// bare reads a number, a literal, or a word without quotes.
func (p *lenient) bare() any {
	if p.pos >= len(p.text) {
		return nil
	}
	word, moved := p.word("")
	switch {
	case !moved:
		p.pos++
		return nil
	case word == "true":
		return true
	case word == "false":
		return false
	case word == "null" || word == "undefined" || word == "NaN":
		return nil
	}
	if _, err := strconv.ParseFloat(word, 64); err == nil {
		return json.Number(word)
	}
	return word
}

// word reads up to the next structural character or line end.
func (p *lenient) word(stops string) (word string, moved bool) {
	end := strings.IndexAny(p.text[p.pos:], ",]}{[\n\"<"+stops)
	if end < 0 {
		end = len(p.text) - p.pos
	}
	word = strings.TrimSpace(p.text[p.pos : p.pos+end])
	p.pos += end
	return word, end > 0
}

// quoted reads a string. Control characters become spaces or line ends. A quote ends the string only if the text after
// it continues as JSON does, because publishers forget to escape quotes in descriptions.
func (p *lenient) quoted() string {
	quote, size := p.quote()
	p.pos += size
	var b strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		kind, size := p.quote()
		switch {
		case c == '\\':
			p.escape(&b)
			continue
		case quote.closedBy(kind) && p.closes(size):
			p.pos += size
			return b.String()
		case c < ' ' && c != '\n' && c != '\t':
			c = ' '
		}
		b.WriteByte(c)
		p.pos++
	}
	return b.String()
}

// lookAhead limits the look-ahead of closes, so that reading stays linear.
const lookAhead = 256

// closes reports whether the quote at the position, of size bytes, ends its string.
func (p *lenient) closes(size int) bool {
	rest := p.text[p.pos+size : min(len(p.text), p.pos+size+lookAhead)]
	for tag := "-"; tag != ""; rest = rest[len(tag):] {
		rest = strings.TrimLeftFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
		tag = editorTag.FindString(rest)
	}
	if rest == "" {
		return true
	}
	switch rest[0] {
	case ':', '}', ']', '/', '<', ';':
		return true
	case '"', '\'':
		return true // missing comma
	case ',':
		// In prose a word follows a comma, in JSON a quote or a value.
		rest = strings.TrimLeftFunc(rest[1:], unicode.IsSpace)
		if kind, _ := quoteOf(rest); kind != noQuote {
			return true
		}
		return rest == "" || strings.ContainsRune("{[]}-/,<tfn0123456789@", rune(rest[0]))
	}
	return false
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': " ", 'f': " ", '"': `"`, '\'': "'", '\\': `\`,
	'/': "/"}

// escape reads an escape; unknown ones stand for themselves.
func (p *lenient) escape(b *strings.Builder) {
	if p.pos+1 >= len(p.text) {
		p.pos++
		return
	}
	c := p.text[p.pos+1]
	if s, ok := escapes[c]; ok {
		b.WriteString(s)
		p.pos += 2
		return
	}
	if c == 'u' {
		// The standard decoder handles surrogate pairs.
		end := p.pos
		for strings.HasPrefix(p.text[end:], `\u`) && end+6 <= len(p.text) && isHex4(p.text[end+2:end+6]) {
			end += 6
		}
		var s string
		if end > p.pos && json.Unmarshal([]byte(`"`+p.text[p.pos:end]+`"`), &s) == nil {
			b.WriteString(s)
			p.pos = end
			return
		}
	}
	b.WriteByte('\\')
	p.pos++
}

func isHex4(s string) bool {
	_, err := strconv.ParseUint(s, 16, 16)
	return err == nil && len(s) == 4
}
