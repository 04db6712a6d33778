package console_test

import "testing"

// TestListsOfAll checks the lists of all organizations, destinations and sources, on separate consoles: each step
// adds to them.
func TestListsOfAll(t *testing.T) {
	t.Parallel()
	w := openAlone(t)
	for _, step := range []struct {
		name string
		show func(*testing.T)
	}{
		{"system", w.showsTheSystem},
		{"trials", w.triesSources},
		{"sources", w.showsSources},
		{"record", w.showsAuditorsTheRecord},
		{"organizations", w.seesAllOrganizations},
		{"attachments", w.attachesSources},
	} {
		t.Run(step.name, step.show)
	}
}
