package main

import (
	"testing"

	"github.com/alecthomas/kong"

	"carillon/aggregates/source"
	"carillon/cmd/internal/httpapi/apitest"
)

// Each selector of a source has a flag of its name, which sets it and no other.
func TestSourceSet_flagForEachSelector(t *testing.T) {
	t.Parallel()
	for i, n := range new(source.Selectors).Named() {
		var flags sourceSettings
		parser := apitest.Must(kong.New(&flags))(t)
		apitest.Must(parser.Parse([]string{"--" + n.Name, "#x"}))(t)
		var want source.Settings
		*want.Selectors.Named()[i].Text = "#x"
		if got := flags.settings(); got != want {
			t.Errorf("--%s sets %+v", n.Name, got)
		}
	}
}
