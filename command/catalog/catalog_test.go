package catalog_test

import (
	"os"
	"testing"

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
		if entry.Description == "" || len(entry.Schema) == 0 {
			t.Errorf("%s lacks a description or a schema", entry.Name)
		}
	}
	if emitted != 6 || reserved != 1 {
		t.Errorf("%d emitted, %d reserved, want 6 and 1", emitted, reserved)
	}
}

func TestTestTypeIsNotInCatalog(t *testing.T) {
	t.Parallel()
	if _, ok := open(t).Find(catalog.DeliveryTest); ok {
		t.Error("delivery.test must not be in the catalog")
	}
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
			if len(problems) != 1 || problems[0].Path != tt.path || problems[0].Message == "" {
				t.Errorf("problems = %+v, want one at %q", problems, tt.path)
			}
		})
	}
}

func TestUnknownType(t *testing.T) {
	t.Parallel()
	if _, err := open(t).Check("weather.changed", []byte(`{}`)); err == nil {
		t.Error("an unknown type passed")
	}
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
