package catalog_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/command/catalog"
)

func TestExampleMatchesItsSchema(t *testing.T) {
	t.Parallel()
	types, err := catalog.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range types.Types() {
		example, err := entry.Example(uuid.NewString, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := types.Check(entry.Name, data); err != nil || len(problems) > 0 || len(example) < 3 {
			t.Errorf("%s: %s: %v %v", entry.Name, data, problems, err)
		}
	}
}
