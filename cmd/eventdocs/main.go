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
	"strconv"
	"strings"

	"carillon/projections/analytics"
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

// ViewPages renders the files about the views for analysts, by their path under docs.
func ViewPages() map[string][]byte {
	views := analytics.Describe()
	return map[string][]byte{"use/views.md": viewPage(views), "use/sources.yml": viewSources(views)}
}

// viewPage is the page of all views, with their keys and joins.
func viewPage(views []analytics.Description) []byte {
	var page, joins strings.Builder
	page.WriteString("<!-- Written by `make generate` from the comments of the views: change those. -->\n" +
		"# Views for analysts\n\n" +
		"Every view of the schema `analytics`, as its comments describe it (`\\d+ analytics.*` in psql). " +
		"[Questions in SQL](analytics.md)\nshows how to ask, and how to connect. " +
		"For dbt there is [sources.yml](sources.yml).\n\n## Keys and joins\n\n```mermaid\nerDiagram\n")
	joins.WriteString("\n| View | Column | Is the key of |\n|---|---|---|\n")
	for _, v := range views {
		for _, c := range v.Columns {
			if c.Of != "" {
				fmt.Fprintf(&page, "    %s ||--o{ %s : %s\n", c.Of, v.Name, c.Name)
				fmt.Fprintf(&joins, "| `%s` | `%s` | `%s` |\n", v.Name, c.Name, c.Of)
			}
		}
	}
	page.WriteString("```\n" + joins.String())
	for _, v := range views {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| Column | |\n|---|---|\n", v.Name, v.Text)
		for _, c := range v.Columns {
			fmt.Fprintf(&page, "| `%s` | %s |\n", c.Name, strings.ReplaceAll(c.Text, "|", "\\|"))
		}
	}
	return []byte(page.String())
}

// viewSources is the file that dbt reads.
func viewSources(views []analytics.Description) []byte {
	var out strings.Builder
	out.WriteString("# Written by `make generate` from the comments of the views: change those.\n" +
		"version: 2\nsources:\n  - name: carillon\n    schema: analytics\n    tables:\n")
	for _, v := range views {
		fmt.Fprintf(&out, "      - name: %s\n        description: %s\n        columns:\n", v.Name, strconv.Quote(v.Text))
		for _, c := range v.Columns {
			fmt.Fprintf(&out, "          - name: %s\n            description: %s\n", c.Name, strconv.Quote(c.Text))
			if c.Key {
				out.WriteString("            data_tests: [unique, not_null]\n")
			}
			if c.Of != "" {
				fmt.Fprintf(&out, "            meta: { joins: %s }\n", strconv.Quote(c.Of+"."+c.Name))
			}
		}
	}
	return []byte(out.String())
}
