package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
)

func TestVersionOfTheChangelog(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# Changelog\n\n## [1.2.0] - 2026-12-24\n\n## [1.1.0] - 2026-12-01\n": "1.2.0",
		"## [1.2.0] - Unreleased\n": "1.2.0-dev",
		"## Unreleased\n":           "",
	} {
		if got := versionOf(text); got != want {
			t.Errorf("%q is version %q, want %q", text, got, want)
		}
	}
}

// The changelog has the form of Keep a Changelog: versions in order, each with the sections of that.
func TestChangelogForm(t *testing.T) {
	t.Parallel()
	kinds := []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
	seen := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^##+ .*$`).FindAllString(changelog, -1) {
		kind, section := strings.CutPrefix(line, "### ")
		switch {
		case !section && !heading.MatchString(line):
			t.Errorf("%q is no version", line)
		case !section:
			clear(seen)
		case !slices.Contains(kinds, kind) || seen[kind]:
			t.Errorf("%q is no section, or there twice", line)
		}
		seen[kind] = true
	}
	assert.True(t, Version() != "", "no version")
}
