package eventstore

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// SameJSON reports whether two texts are the same JSON value: the order of members, escapes, white space and the
// spelling of fractions don't matter. Integers are compared digit by digit, as they may be larger than a float64 is
// exact.
func SameJSON(a, b JSON) bool {
	if bytes.Equal(a, b) {
		return true
	}
	a, b = a.Clone(), b.Clone()
	plain := jsontext.CanonicalizeRawFloats(true)
	ordered := jsontext.ReorderRawObjects(true)
	return a.Format(plain, ordered) == nil && b.Format(plain, ordered) == nil && bytes.Equal(a, b)
}
