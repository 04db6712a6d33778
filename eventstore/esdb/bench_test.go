package esdb_test

import (
	"testing"

	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
)

// BenchmarkStore is what the program pays for its calls, the node's part included.
func BenchmarkStore(b *testing.B) { storetest.Bench(b, nodetest.Start(b)) }
