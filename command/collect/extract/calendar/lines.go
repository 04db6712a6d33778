package calendar

import (
	"bytes"
	"strings"
)

// Unfold joins folded lines, RFC 5545 section 3.1, also across blank lines. It works on bytes before decoding, because
// programs fold in the middle of a character.
func Unfold(body []byte) []byte {
	body = decodeQuoted(body)
	folded := func(fold string) bool { return bytes.Contains(body, []byte(fold)) }
	if !folded("\n ") && !folded("\n\t") && !folded("\r ") && !folded("\r\t") {
		return body
	}
	unfolded := make([]byte, 0, len(body))
	for i := 0; i < len(body); {
		end := i
		for end < len(body) && (body[end] == '\r' || body[end] == '\n') {
			end++
		}
		if end > i && end < len(body) && (body[end] == ' ' || body[end] == '\t') {
			i = end + 1
			continue
		}
		end = max(end, i+1)
		unfolded = append(unfolded, body[i:end]...)
		i = end
	}
	return unfolded
}

// line is a content line. Its parts are substrings of the text; value is still escaped.
type line struct{ name, params, value string }

// parseLine reads a content line. ok reports whether it is one.
func parseLine(text string) (l line, ok bool) {
	l, ok = parseOnce(text)
	for range maxRepeated {
		again, ok := l.again()
		if !ok {
			break
		}
		l = again
	}
	return l, ok
}

// maxRepeated limits how often a line may repeat its name.
const maxRepeated = 3

func parseOnce(text string) (l line, ok bool) {
	end := strings.IndexAny(text, ":;")
	if end <= 0 {
		return line{}, false
	}
	l.name = strings.TrimSpace(text[:end])
	for i := range len(l.name) {
		if c := l.name[i]; c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return line{}, false
		}
	}
	l.name = strings.ToUpper(l.name) // no copy if nothing changes
	colon := end
	if text[end] == ';' {
		if colon = valueAt(text, end); colon < 0 {
			return line{}, false
		}
		l.params = text[end+1 : colon]
	}
	l.value = text[colon+1:]
	if dated[l.name] {
		// Names of zones contain colons, and not all programs quote them: the value begins at a date.
		for at := colon; l.params != "" && !beginsDate(l.value); {
			next := strings.IndexByte(text[at+1:], ':')
			if next < 0 {
				break
			}
			if at += 1 + next; beginsDate(text[at+1:]) {
				l.params, l.value = text[end+1:at], text[at+1:]
			}
		}
	}
	return l, l.name != ""
}

// again returns the line in a value that begins with the name of its own line, or with that of a rule: some programs
// write "RRULE:" twice.
func (l line) again() (line, bool) {
	if !dated[l.name] && l.name != "RRULE" && l.name != "EXRULE" {
		return line{}, false
	}
	value := strings.TrimLeft(l.value, " \t")
	for _, name := range []string{l.name, "RRULE", "EXRULE"} {
		if len(value) <= len(name) || !strings.EqualFold(value[:len(name)], name) {
			continue
		}
		if c := value[len(name)]; c != ':' && c != ';' {
			continue
		}
		inner, ok := parseOnce(value)
		if inner.name = l.name; inner.params == "" {
			inner.params = l.params
		}
		return inner, ok
	}
	return line{}, false
}

// isAbsent reports whether a value stands for none: empty, false or a lone 0. Ids are numbered from 0.
func (l line) isAbsent() bool {
	value := strings.TrimSpace(l.value)
	return value == "" || value == "false" || value == "0" && l.name != "UID"
}

// beginsDate reports whether a text begins with a year, as dates do.
func beginsDate(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) >= 8 && strings.Trim(text[:4], "0123456789") == ""
}

// dated are the properties with dates.
var dated = map[string]bool{"DTSTART": true, "DTEND": true, "RDATE": true, "EXDATE": true, "RECURRENCE-ID": true}

// valueAt returns the index of the colon after the parameters, outside of quotes unless they don't close.
func valueAt(text string, from int) int {
	quoted := false
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '"':
			quoted = !quoted
		case ':':
			if !quoted {
				return i
			}
		}
	}
	return strings.IndexByte(text, ':')
}

// param returns the value of a parameter, "" if it is missing.
func (l line) param(name string) string {
	for rest := l.params; rest != ""; {
		end := separator(rest)
		key, value, _ := strings.Cut(rest[:end], "=")
		if strings.EqualFold(strings.TrimSpace(key), name) {
			return unquote(value)
		}
		rest = strings.TrimPrefix(rest[end:], ";")
	}
	return ""
}

// separator returns the index of the next parameter, outside of quotes.
func separator(text string) int {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ';' && !quoted:
			return i
		}
	}
	return len(text)
}

// parameterText reverts the escapes of RFC 6868.
var parameterText = strings.NewReplacer("^n", "\n", "^'", `"`, "^^", "^")

func unquote(value string) string {
	value = strings.Trim(strings.TrimSpace(value), `"`)
	if strings.Contains(value, "^") {
		return parameterText.Replace(value)
	}
	return value
}

// valueText reverts the escapes of a TEXT, standard or not.
var valueText = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\N`, "\n", `\;`, ";", `\,`, ",", `\:`, ":", `\"`, `"`)

// maxText limits how many bytes of a value are read.
const maxText = 256 << 10

func (l line) text() string {
	value := l.value
	if len(value) > maxText {
		value = strings.ToValidUTF8(value[:maxText], "")
	}
	if !strings.Contains(value, `\`) {
		return strings.TrimSpace(value)
	}
	return strings.TrimSpace(valueText.Replace(value))
}
