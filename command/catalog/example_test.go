package catalog_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/command/catalog"
	"carillon/eventstore/storetest/must"
)

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
