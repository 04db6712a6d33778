package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"carillon/eventstore/instant"
)

const (
	columnGap  = 3   // spaces
	maxColumns = 100 // of the status
)

// newTable returns a writer that lays out what row writes. The first row has the headings.
func newTable(to io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(to, 0, 0, columnGap, ' ', 0)
}

// zoned is a writer for people of a time zone.
type zoned struct {
	io.Writer
	zone *time.Location
}

// zoneOf returns the zone of what is written: the terminal's, unless the writer has another.
func zoneOf(to io.Writer) *time.Location {
	if z, ok := to.(zoned); ok {
		return z.zone
	}
	return time.Local
}

// moment returns the text of an optional instant.
func moment(to io.Writer, at *time.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return instant.Shown(*at, zoneOf(to))
}

// row writes a line of a table. A cell may be an instant. Nothing in a cell can steer the terminal.
func row(to io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		switch at := cell.(type) {
		case time.Time:
			cell = moment(to, &at)
		case *time.Time:
			cell = moment(to, at)
		}
		texts[i] = printable(strings.NewReplacer("\t", " ", "\n", " ").Replace(fmt.Sprint(cell)))
	}
	_, _ = fmt.Fprintln(to, strings.Join(texts, "\t"))
}

// paragraph writes a text in lines of at most maxColumns.
func paragraph(to io.Writer, text string) {
	for _, line := range wrap(text, maxColumns) {
		row(to, line)
	}
}

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
