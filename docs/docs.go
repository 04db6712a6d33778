// Package docs holds the changelog, which says what version this is.
package docs

import (
	_ "embed"
	"regexp"
)

//go:embed changelog.md
var changelog string

// heading is that of a version: "## [1.0.0] - 2026-12-24", or "Unreleased" for the date.
var heading = regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - (?:Unreleased|\d{4}-\d{2}-\d{2})$`)

// Version returns the version of the changelog's first heading, with "-dev" before its release.
func Version() string { return versionOf(changelog) }

func versionOf(text string) string {
	found := heading.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	if found[0][len(found[0])-1] == 'd' {
		return found[1] + "-dev"
	}
	return found[1]
}
