package main

import (
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// harmless writes texts that can't steer a terminal. Control and format characters that others chose, such as C1 and
// U+202E, are written as JSON escapes, so that the value of JSON stays the same.
type harmless struct {
	to   io.Writer
	rest []byte // of a character whose end is still to come
}

// Write implements io.Writer.
func (h *harmless) Write(text []byte) (int, error) {
	in := slices.Concat(h.rest, text)
	out := make([]byte, 0, len(in))
	for len(in) > 0 && utf8.FullRune(in) {
		r, size := utf8.DecodeRune(in)
		switch {
		case steers(r):
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		default:
			out = utf8.AppendRune(out, r)
		}
		in = in[size:]
	}
	h.rest = append([]byte(nil), in...)
	if _, err := h.to.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

// steers reports whether a terminal obeys a character in place of showing it. Joiners, which are parts of words and
// emoji, are shown.
func steers(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return !unicode.IsGraphic(r) && r != '\n' && r != '\t' && r != nonJoiner && r != joiner
}
