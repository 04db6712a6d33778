package catalog_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/command/catalog"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func open(t *testing.T) *catalog.Catalog {
	t.Helper()
	c := must.Get(catalog.New())(t)
	return c
}

func TestSixTypesAreEmittedAndOneIsReserved(t *testing.T) {
	t.Parallel()
	emitted, reserved := 0, 0
	for _, entry := range open(t).Types() {
		if entry.CurrentlyEmitted {
			emitted++
		} else {
			reserved++
		}
		assert.True(t, entry.Description != "" && len(entry.Schema) != 0, "%s lacks a description or a schema", entry.Name)
	}
	assert.True(t, emitted == 6 && reserved == 1, "%d emitted, %d reserved, want 6 and 1", emitted, reserved)
}

func TestTestTypeIsNotInCatalog(t *testing.T) {
	t.Parallel()
	_, ok := open(t).Find(catalog.DeliveryTest)
	assert.True(t, !ok, "delivery.test must not be in the catalog")
}

func TestCheckNamesThePlace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data, path string
	}{
		"right":          {`{"id":"7","title":"Storm"}`, ""},
		"missing member": {`{"id":"7"}`, ""},
		"wrong type":     {`{"id":"7","title":5}`, "/title"},
		"no object":      {`[]`, ""},
		"bad format":     {`{"id":"7","title":"x","publishedAt":"yesterday"}`, "/publishedAt"},
		"no JSON":        {`{`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			problems := must.Get(open(t).Check("news.item.added", []byte(tt.data)))(t)
			if name == "right" {
				assert.Equal(t, len(problems), 0, "problems in right data: %v", problems)
				return
			}
			assert.True(t, len(problems) == 1 && problems[0].Path == tt.path && problems[0].Message != "",
				"problems = %+v, want one at %q", problems, tt.path)
		})
	}
}

func TestUnknownType(t *testing.T) {
	t.Parallel()
	_, err := open(t).Check("weather.changed", []byte(`{}`))
	assert.True(t, err != nil, "an unknown type passed")
}

func FuzzCheck(f *testing.F) {
	c := must.Get(catalog.New())(f)
	f.Add([]byte(`{"id":"7","title":"Storm"}`))
	f.Add([]byte(`{"occurrences":[{"id":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, entry := range c.Types() {
			must.Get(c.Check(entry.Name, data))(t)
		}
	})
}

func TestNew_withoutWorkingDirectory(t *testing.T) {
	dir := t.TempDir() + "/gone"
	must.OK(t, os.Mkdir(dir, 0o700))
	t.Chdir(dir)
	must.OK(t, os.Remove(dir))
	must.Get(catalog.New())(t)
}

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
		assert.True(t, strings.Contains(string(text), row), "%s lacks %s", page, row)
		for _, member := range notice.Data {
			if _, has := schema.Properties[member]; !has && !notice.Operators {
				t.Errorf("the schema has no %s", member)
			}
		}
	}
}

func TestExampleMatchesItsSchema(t *testing.T) {
	t.Parallel()
	types := must.Get(catalog.New())(t)
	for _, entry := range types.Types() {
		example := must.Get(entry.Example(uuid.NewString, time.Now()))(t)
		data := must.Get(json.Marshal(example))(t)
		if problems, err := types.Check(entry.Name, data); err != nil || len(problems) > 0 || len(example) < 3 {
			t.Errorf("%s: %s: %v %v", entry.Name, data, problems, err)
		}
	}
}
