package embedded_test

import (
	"testing"

	"carillon/eventstore/node"
	"carillon/eventstore/storetest"
)

// BenchmarkStore is what the program pays for its calls, on disk.
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
