package catalog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"carillon/command/catalog"
)

// The documents' tables and the schema have what is declared of notices.
func TestNoticesAreDocumented(t *testing.T) {
	t.Parallel()
	types, err := catalog.NoticeTypes()
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(types[0].Schema, &schema); err != nil {
		t.Fatal(err)
	}
	for _, notice := range catalog.Notices {
		page := "../../docs/use/webhooks.md"
		if notice.Operators {
			page = "../../docs/operate/monitor.md"
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		row := fmt.Sprintf("| `%s` | %s | `%s` |\n", notice.Type, notice.When, strings.Join(notice.Data, "`, `"))
		if !strings.Contains(string(text), row) {
			t.Errorf("%s lacks %s", page, row)
		}
		for _, member := range notice.Data {
			if _, has := schema.Properties[member]; !has && !notice.Operators {
				t.Errorf("the schema has no %s", member)
			}
		}
	}
}
