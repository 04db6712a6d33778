package openapi_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"carillon/cmd/internal/openapi"
	"carillon/eventstore/storetest/assert"
)

func TestRequiredAllListsProperties(t *testing.T) {
	t.Parallel()
	got, err := openapi.Assemble(fstest.MapFS{"openapi/base.yaml": {Data: []byte(
		"x-shared: &shared {b: 1}\nschema: {required: all, properties: {a: 2, <<: *shared}}\n")}})
	want := `{"schema":{"required":["a","b"],"properties":{"a":2,"b":1}}}`
	assert.True(t, strings.TrimSpace(string(got)) == want && err == nil, "%s %v, want %s", got, err, want)
}
