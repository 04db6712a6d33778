package catalog

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"carillon/eventstore/storetest/must"
)

var documents = []string{
	``, ` `, `null`, `true`, `false`, `0`, `-0.10e+5`, `12345678901234567890.5`, `01`, `"a\u00e9\n"`, `"\ud800"`,
	"\"\xff\"", "\"\x01\"",
	`[]`, `[1,"two",null,[{}],{"a":[]}]`, `[1,]`, `[1`, `{}`, `{"a":1,"a":{"b":false}}`, `{"a"}`, `{"a":}`, `{"a":1,}`,
	`{"a":1`, `{1:2}`, `{} {}`, `{}x`,
	strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
}

func sameDocument(t *testing.T, text string) {
	t.Helper()
	want, wantErr := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
	got, err := parse([]byte(text))
	must.True(t, (err == nil) == (wantErr == nil), "%.100q: %v, want %v", text, err, wantErr)
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%.100q: %.200v, want %.200v", text, got, want)
	}
}

func TestDocumentsReadAsByValidator(t *testing.T) {
	t.Parallel()
	for _, text := range documents {
		sameDocument(t, text)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range documents[:len(documents)-2] {
		f.Add(text)
	}
	f.Fuzz(sameDocument)
}
