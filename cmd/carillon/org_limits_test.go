package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestOrganizationLimitsSuspensionDeletion from the command line.
func TestOrganizationLimitsSuspensionDeletion(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	row := func(text, want string) {
		t.Helper()
		if !regexp.MustCompile(`(?m)^` + want + ` *$`).MatchString(text) {
			t.Errorf("the answer lacks %s:\n%s", want, text)
		}
	}
	shown := s.ok("org", "limits", org[:8])
	row(shown, `feeds +10000 +default`)
	row(shown, `requestsPerSecond +10000 +default`)
	row(s.ok("org", "limits", org[:8], "feeds=50", "keys=2"), `feeds +50 +set`)
	again := s.ok("org", "limits", org, "destinations=0", "keys=default") // the others stay
	row(again, `feeds +50 +set`)
	row(again, `destinations +0 +set`)
	row(again, `keys +1000 +default`)
	if text := s.ok("org", "limits", org, "--json"); !strings.Contains(text, `"feeds": 50`) {
		t.Errorf("--json:\n%s", text)
	}
	s.refused("must be LIMIT=N", "org", "limits", org, "feeds")
	s.refused("with a whole number or default", "org", "limits", org, "feeds=many")
	s.refused(`unknown limit "cakes": name one of backfillEventsPerDay, destinations, `, "org", "limits", org,
		"cakes=1")
	s.refused("feeds must be from 0", "org", "limits", org, "feeds=-1")

	listed := func(status string) {
		t.Helper()
		row(s.ok("org", "list"), org+` +Town hall .* `+status)
	}
	listed("registered")
	s.ok("org", "suspend", org[:8], "--reason", "unpaid")
	listed("suspended")
	s.ok("org", "resume", org[:8])
	listed("registered")
	s.refused("confirm with --yes", "org", "delete", org)
	s.refused("by its whole id", "org", "delete", org[:8], "--yes")
	listed("registered")
	if text := s.ok("org", "delete", org, "--yes"); !strings.Contains(text, "deleted") {
		t.Errorf("org delete:\n%s", text)
	}
	s.ok("org", "delete", org, "--yes") // the same again changes nothing
	if list := s.ok("org", "list"); strings.Contains(list, org) {
		t.Errorf("it is still listed:\n%s", list)
	}
	s.refused("organization not found", "org", "limits", org, "feeds=1")
}
