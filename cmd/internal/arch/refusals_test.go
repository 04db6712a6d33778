package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"carillon/eventstore/storetest/must"
)

var refusal = regexp.MustCompile(`refuse\(\w+, "([\w.]+)",\s*"([^"]+)`)

// The text of a refusal names its field.
func TestRefusalsNameTheirField(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob(filepath.Join(root, "command/*.go")))(t)
	found := 0
	for _, file := range files {
		source := must.Get(os.ReadFile(file))(t)
		for _, call := range refusal.FindAllStringSubmatch(string(source), -1) {
			found++
			if !strings.Contains(call[2], call[1]) {
				t.Errorf("%s: the refusal of %s says %q", file, call[1], call[2])
			}
		}
	}
	if found < 30 {
		t.Errorf("%d refusals found", found)
	}
}
