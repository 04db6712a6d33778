package embedded_test

import (
	"testing"

	"carillon/eventstore/node"
	"carillon/eventstore/storetest"
)

// BenchmarkStore measures the calls of a program to the store in its process, on disk.
func BenchmarkStore(b *testing.B) {
	n, err := node.Open(node.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
	})
	storetest.Bench(b, n.Store())
}
