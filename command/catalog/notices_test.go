package catalog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"carillon/command/catalog"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// The documents' tables and the schema have what is declared of notices.
func TestNoticesAreDocumented(t *testing.T) {
	t.Parallel()
	types := must.Get(catalog.NoticeTypes())(t)
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	must.OK(t, json.Unmarshal(types[0].Schema, &schema))
	for _, notice := range catalog.Notices {
		page := "../../docs/use/webhooks.md"
		if notice.Operators {
			page = "../../docs/operate/monitor.md"
		}
		text := must.Get(os.ReadFile(page))(t)
		row := fmt.Sprintf("| `%s` | %s | `%s` |\n", notice.Type, notice.When, strings.Join(notice.Data, "`, `"))
		assert.Equal(t, strings.Contains(string(text), row), true, "%s lacks %s", page, row)
		for _, member := range notice.Data {
			if _, has := schema.Properties[member]; !has && !notice.Operators {
				t.Errorf("the schema has no %s", member)
			}
		}
	}
}
