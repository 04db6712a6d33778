package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

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
