package main

import (
	"strings"
	"testing"

	"carillon/cmd/internal/app"
)

func TestVersionNamesCommitAndDate(t *testing.T) {
	t.Parallel()
	built := app.Build{Version: "1.0.0", Commit: "c978e10ad4d15e29a5dec5bec9277ead110c2731",
		Date: "2026-11-26T15:49:26Z"}
	if got := describe(built); !strings.HasPrefix(got,
		"carillon 1.0.0 (commit c978e10ad4d1, 2026-11-26T15:49:26Z, go") {
		t.Errorf("version: %s", got)
	}
	if got := describe(app.Build{Version: "dev"}); !strings.HasPrefix(got, "carillon dev (go") {
		t.Errorf("version without a commit: %s", got)
	}
}
