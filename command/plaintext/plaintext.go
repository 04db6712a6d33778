// Package plaintext is the rule for texts in one line that people see, such as names and reasons: they show every
// character that they have, and change nothing around them.
package plaintext

import (
	"strings"
	"unicode"
)

// hidden are invisible characters that no word needs. Joiners are parts of words and emoji.
var hidden = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x200b, Hi: 0x200b, Stride: 1}, // zero width space
	{Lo: 0x2060, Hi: 0x2064, Stride: 1}, // word joiner, invisible operators
	{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, // byte order mark
}}

// Steers reports whether a character acts on what surrounds it in place of being shown: a control character, a line
// break, or a mark of the direction of text.
func Steers(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control, hidden)
}

// Is reports whether a text is plain and in one line.
func Is(text string) bool { return !strings.ContainsFunc(text, Steers) }

// Of returns a text of others in a form that can be stored and shown in one line.
func Of(text string) string {
	return strings.Map(func(r rune) rune {
		if Steers(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}
