package node_test

import (
	"context"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

func setMetadata(tb testing.TB, client *esdb.Client, stream string, change func(*esdb.StreamMetadata)) {
	tb.Helper()
	metadata := esdb.StreamMetadata{}
	change(&metadata)
	if _, err := client.SetStreamMetadata(context.Background(), stream,
		esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, metadata); err != nil {
		tb.Fatal(err)
	}
}
