package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

const (
	columnGap  = 3   // spaces
	maxColumns = 100 // of the status
)

// newTable returns a writer that lays out what row writes. The first row has the headings.
func newTable(to io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(to, 0, 0, columnGap, ' ', 0)
}

// row writes a line of a table. Nothing in a cell can steer the terminal.
func row(to io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
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
