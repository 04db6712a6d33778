package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

const columnGap = 3 // spaces

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
