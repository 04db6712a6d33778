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
	l.value = text[end+1:]
	if text[end] == ';' {
		if l.params, l.value, ok = cutUnquoted(text[end+1:], ':'); !ok {
			l.params, l.value, ok = strings.Cut(text[end+1:], ":") // the quotes don't close
		}
		if !ok {
			return line{}, false
		}
	}
	if dated[l.name] {
		// Names of zones contain colons, and not all programs quote them: the value begins at a date.
		for at := len(text) - len(l.value); l.params != "" && !beginsDate(l.value); {
			next := strings.IndexByte(text[at:], ':')
			if next < 0 {
				break
			}
			if at += next + 1; beginsDate(text[at:]) {
				l.params, l.value = text[end+1:at-1], text[at:]
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

// cutUnquoted cuts a text at the first separator outside of quotes.
func cutUnquoted(text string, separator byte) (before, after string, found bool) {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// param returns the value of a parameter, "" if it is missing.
func (l line) param(name string) string {
	for rest := l.params; rest != ""; {
		part, after, _ := cutUnquoted(rest, ';')
		if key, value, _ := strings.Cut(part, "="); strings.EqualFold(strings.TrimSpace(key), name) {
			return unquote(value)
		}
		rest = after
	}
	return ""
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
