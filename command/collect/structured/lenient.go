package structured

import (
	"encoding/json"
	"errors"
	"html"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth is how deep values may nest; no honest page comes near.
const maxDepth = 64

// decodeJSON reads what should be JSON. Text that isn't is read with forbearance: comments, CDATA marks, control
// characters in strings, commas too many or too few, unescaped or single quotes, bare words, entities for quotes,
// several values in a row, an end that is missing. Numbers become json.Number.
//
// Clean says that nothing had to be forgiven. An ok of false means that no object or array is in there at all.
func decodeJSON(text string) (values []any, clean, ok bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	// The standard decoder has a depth limit of its own, but a far higher one.
	if decoder.Decode(&value) == nil && depth(value) <= maxDepth {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return []any{value}, true, isStructure(value)
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

func isStructure(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// depth is how deep a value nests, counted no further than is allowed.
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

// looksEscaped: the quotes themselves are entities.
func looksEscaped(text string) bool {
	return !strings.Contains(text, `"`) && (strings.Contains(text, "&quot;") || strings.Contains(text, "&#34;") || strings.Contains(text, "&#034;"))
}

// lenient is a recursive-descent reader that always goes forward: each step consumes something or ends, so it takes
// linear time on any input.
type lenient struct {
	text string
	pos  int
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

// skipped are the comments and marks that may stand between tokens. What has no end of its own goes by its length.
var skipped = []struct{ begin, end string }{
	{"/*", "*/"}, {"//", "\n"}, {"<!--", ""}, {"-->", ""}, {"<![CDATA[", ""}, {"]]>", ""},
}

// space passes over white space, comments and other marks.
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
		if !strings.HasPrefix(p.text[p.pos:], s.begin) {
			continue
		}
		p.pos += len(s.begin)
		if s.end != "" {
			p.after(s.end)
		}
		goto again
	}
}

// after moves behind the mark, or to the end.
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

// value reads one value. The caller has passed over the space before it.
func (p *lenient) value(level int) any {
	switch p.peek() {
	case '{':
		p.pos++
		return p.object(level + 1)
	case '[':
		p.pos++
		return p.array(level + 1)
	case '"', '\'':
		return p.quoted()
	}
	return p.bare()
}

func (p *lenient) object(level int) any {
	object := map[string]any{}
	for {
		p.space()
		switch p.peek() {
		case 0:
			if p.pos >= len(p.text) {
				return object
			}
			p.pos++
			continue
		case '}':
			p.pos++
			return object
		case ']', '{', '[': // belongs to what is around: the brace is missing
			return object
		case ',', ':', ';':
			p.pos++
			continue
		}
		key := p.key()
		p.space()
		if p.peek() != ':' {
			continue // a key without a value
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
		p.space()
		switch p.peek() {
		case 0:
			if p.pos >= len(p.text) {
				return array
			}
			p.pos++
			continue
		case ']':
			p.pos++
			return array
		case '}': // belongs to an object around: the bracket is missing
			return array
		case ',', ':', ';':
			p.pos++
			continue
		}
		if level >= maxDepth {
			p.pos = len(p.text)
			return array
		}
		array = append(array, p.value(level))
	}
}

func (p *lenient) key() string {
	if c := p.peek(); c == '"' || c == '\'' {
		return p.quoted()
	}
	word, _ := p.word(":")
	return word
}

// bare reads a number, a literal, or a word that should have been quoted.
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
	end := strings.IndexAny(p.text[p.pos:], ",]}{[\n\""+stops)
	if end < 0 {
		end = len(p.text) - p.pos
	}
	word = strings.TrimSpace(p.text[p.pos : p.pos+end])
	p.pos += end
	return word, end > 0
}

// quoted reads a string. Control characters are kept as spaces or line ends, and a quote ends the string only where the
// text after it goes on as JSON would: publishers forget to escape quotes in descriptions.
func (p *lenient) quoted() string {
	quote := p.text[p.pos]
	p.pos++
	var b strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		switch {
		case c == '\\':
			p.escape(&b)
			continue
		case c == quote && p.closes():
			p.pos++
			return b.String()
		case c < ' ' && c != '\n' && c != '\t':
			c = ' '
		}
		b.WriteByte(c)
		p.pos++
	}
	return b.String()
}

// lookAhead bounds how far closes looks, so that reading stays linear.
const lookAhead = 256

// closes says whether the quote at the position ends its string.
func (p *lenient) closes() bool {
	rest := p.text[p.pos+1 : min(len(p.text), p.pos+1+lookAhead)]
	rest = strings.TrimLeftFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if rest == "" {
		return true
	}
	switch rest[0] {
	case ':', '}', ']', '/', '<', ';':
		return true
	case '"', '\'':
		return true // a comma is missing
	case ',':
		// After a comma in prose a word follows, in JSON a quote or a value.
		rest = strings.TrimLeftFunc(rest[1:], unicode.IsSpace)
		return rest == "" || strings.ContainsRune("\"'{[]}-/,tfn0123456789@", rune(rest[0]))
	}
	return false
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': " ", 'f': " ", '"': `"`, '\'': "'", '\\': `\`, '/': "/"}

// escape reads an escape; one that JSON doesn't know stands for itself.
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
		// The standard decoder knows about surrogate pairs.
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
