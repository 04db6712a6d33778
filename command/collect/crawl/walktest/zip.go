package walktest

import (
	"bytes"
	"compress/gzip"
	"testing"

	"carillon/eventstore/storetest/must"
)

// Zipped returns a text compressed by gzip.
func Zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must.Get(z.Write([]byte(text)))(t)
	must.OK(t, z.Close())
	return b.String()
}
