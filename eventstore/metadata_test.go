package eventstore

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

func TestMetadataIsEncodedAsItIsDeclared(t *testing.T) {
	t.Parallel()
	id := func(n byte) uuid.UUID { return uuid.UUID{15: n} }
	for name, m := range map[string]Metadata{
		"nothing":   {},
		"all":       {Organization: id(1), CorrelationID: id(2), CausationID: id(3), Actor: "operator", Reason: "asked for"},
		"one":       {CausationID: id(1), Actor: "key:1"},
		"escaped":   {Actor: "a\"b\\c\u2028<&>", Reason: "line\nline\x00звон"},
		"not text":  {Actor: "\xff"},
		"no reason": {Actor: "a", Reason: "\xff"},
	} {
		declared := m
		declared.SchemaVersion = SchemaVersion
		want, wantErr := json.Marshal(declared)
		got, err := m.encode()
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s: %s %v, want %s %v", name, got, err, want, wantErr)
		}
	}
}

func BenchmarkEncodeMetadata(b *testing.B) {
	m := Metadata{Organization: uuid.New(), CorrelationID: uuid.New(), CausationID: uuid.New(), Actor: "dispatcher"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.encode(); err != nil {
			b.Fatal(err)
		}
	}
}
