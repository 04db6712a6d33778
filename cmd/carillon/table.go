package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"carillon/cmd/internal/config"
)

const columnGap = 3 // spaces

// table lays out what row wrote: lines of one cell as they are, the others below each other in columns, the first of
// them being the headings. Where it is wider than the terminal, each row becomes a block of lines instead.
type table struct {
	to    io.Writer
	width int // columns of the terminal; 0: no limit
	text  bytes.Buffer
}

func newTable(to io.Writer) *table {
	t := &table{to: to}
	if file, ok := to.(interface{ Fd() uintptr }); ok && config.IsTerminal(to) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			t.width = width
		}
	}
	return t
}

// Write implements io.Writer.
func (t *table) Write(p []byte) (int, error) { return t.text.Write(p) }

// row writes a line of a table. Nothing in a cell can steer the terminal.
func row(to io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = printable(strings.NewReplacer("\t", " ", "\n", " ").Replace(fmt.Sprint(cell)))
	}
	_, _ = fmt.Fprintln(to, strings.Join(texts, "\t"))
}

// Flush writes everything out.
func (t *table) Flush() error {
	lines := strings.SplitAfter(t.text.String(), "\n")
	var widths []int
	for _, line := range lines {
		if cells := cellsOf(line); len(cells) > 1 {
			for i, cell := range cells {
				if i == len(widths) {
					widths = append(widths, 0)
				}
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	total := -columnGap
	for _, width := range widths {
		total += width + columnGap
	}
	var out strings.Builder
	var headings []string
	for _, line := range lines {
		cells := cellsOf(line)
		switch {
		case len(cells) == 1:
			out.WriteString(line)
		case t.width == 0 || total <= t.width:
			out.WriteString(strings.TrimRight(inColumns(cells, widths), " ") + "\n")
		case headings == nil:
			headings = cells
		default:
			block(&out, headings, cells)
		}
	}
	_, err := io.WriteString(t.to, out.String())
	return err
}

func cellsOf(line string) []string { return strings.Split(strings.TrimSuffix(line, "\n"), "\t") }

func inColumns(cells []string, widths []int) string {
	var out strings.Builder
	for i, cell := range cells {
		out.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+columnGap))
	}
	return out.String()
}

// block is a row under its first cell.
func block(out *strings.Builder, headings, cells []string) {
	width := 0
	for _, heading := range headings[1:] {
		width = max(width, utf8.RuneCountInString(heading))
	}
	out.WriteString(cells[0] + "\n")
	for i, cell := range cells[1:] {
		if cell != "" {
			_, _ = fmt.Fprintf(out, "  %-*s   %s\n", width, headings[i+1], cell)
		}
	}
}
