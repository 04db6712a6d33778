package adminapi_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"carillon/aggregates/organization"
)

// Each limit is in the document of the API and in the docs with its default.
func TestLimitsAreDocumented(t *testing.T) {
	t.Parallel()
	for file, line := range map[string]string{
		"openapi/organizations.yaml":             "%s: { type: integer",
		"../../../docs/operate/organizations.md": "`%s`",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range organization.Definitions() {
			if !strings.Contains(string(text), fmt.Sprintf(line, d.Limit)) {
				t.Errorf("%s lacks the limit %s", file, d.Limit)
			}
		}
	}
}
