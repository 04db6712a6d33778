package store

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// headFilter is a Bloom filter over the keys of stream heads alone. They are the only keys looked up that are often
// absent; leaving the others out keeps the filters in memory a third of the size.
type headFilter struct{ bloom.FilterPolicy }

// Name is stored with each table, and must change with the filter's content.
func (headFilter) Name() string { return "carillon.heads.bloom" }

// MayContain implements pebble.FilterPolicy.
func (f headFilter) MayContain(kind pebble.FilterType, filter, key []byte) bool {
	return !isHeadKey(key) || f.FilterPolicy.MayContain(kind, filter, key)
}

// NewWriter implements pebble.FilterPolicy.
func (f headFilter) NewWriter(kind pebble.FilterType) pebble.FilterWriter {
	return headFilterWriter{f.FilterPolicy.NewWriter(kind)}
}

type headFilterWriter struct{ pebble.FilterWriter }

// AddKey implements pebble.FilterWriter.
func (w headFilterWriter) AddKey(key []byte) {
	if isHeadKey(key) {
		w.FilterWriter.AddKey(key)
	}
}

func isHeadKey(key []byte) bool { return len(key) > 0 && key[0] == prefixHead }
