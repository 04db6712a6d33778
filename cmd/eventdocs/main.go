// Command eventdocs writes docs/understand/events.md: every stored event, with its description, fields, an example and
// readers. Everything is taken from the aggregates' source and golden files, so the page is always correct. It also
// writes docs/use/views.md and sources.yml: every view for analysts, by its comments.
//
//	aggregates/<name>/*.go ──▶ package doc, Case["…"], event types, field comments ─┐
//	aggregates/<name>/testdata/<event>.json ──▶ examples ───────────────────────────┼─▶ docs/understand/events.md
//	projections, command ──▶ who decodes the events ────────────────────────────────┘
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

//go:generate go run . ../..

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(root, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "eventdocs:", err)
		os.Exit(1)
	}
}

func run(root string, log io.Writer) error {
	page, err := Page(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, "docs", "understand", "events.md")
	if err := os.WriteFile(path, page, 0o644); err != nil { //nolint:gosec // a public page
		return fmt.Errorf("write the catalogue: %w", err)
	}
	for name, page := range ViewPages() {
		if err := os.WriteFile(filepath.Join(root, "docs", name), page, 0o644); err != nil { //nolint:gosec // as above
			return fmt.Errorf("write the views: %w", err)
		}
	}
	_, err = fmt.Fprintln(log, "wrote", path)
	return err
}

// Page renders the catalogue of the repository at root.
func Page(root string) ([]byte, error) {
	aggregates, err := readAggregates(root)
	if err != nil {
		return nil, err
	}
	if err := addReaders(root, aggregates); err != nil {
		return nil, err
	}
	metadata, err := readMetadata(root)
	if err != nil {
		return nil, err
	}
	return render(aggregates, metadata), nil
}
