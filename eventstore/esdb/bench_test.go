package esdb_test

import (
	"testing"

	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
)

// BenchmarkStore measures the calls of a program to a node, the node's part included.
func BenchmarkStore(b *testing.B) { storetest.Bench(b, nodetest.Start(b)) }
