package main

import (
	"fmt"
	"strconv"
	"strings"

	"carillon/projections/analytics"
)

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
