package node_test

import (
	"slices"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/eventstore/node"
)

// Only the data counts, as on the servers that clients were made for; and an append of any number of events survives a
// crash.
func TestSizesOfAppends(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	client := serve(t, node.Config{Dir: "node", FS: disk}).client(t)
	sized := func(data, metadata int) esdb.EventData {
		e := event("sized", "")
		e.ContentType, e.Data, e.Metadata = esdb.ContentTypeBinary, make([]byte, data), make([]byte, metadata)
		return e
	}
	long := patience
	many := make([]esdb.EventData, 70_000)
	if testing.Short() { // which is more than one batch still
		many = many[:7_000]
	}
	for i := range many {
		many[i] = sized(0, 0)
	}
	for name, c := range map[string]struct {
		list []esdb.EventData
		fits bool
	}{
		"1 MiB of data":        {[]esdb.EventData{sized(1<<20, 0)}, true},
		"and metadata":         {[]esdb.EventData{sized(900_000, 900_000)}, true},
		"much metadata":        {slices.Repeat([]esdb.EventData{sized(10, 1_500_000)}, 8), true},
		"many events":          {many, true},
		"more data":            {[]esdb.EventData{sized(1<<20, 0), sized(1, 0)}, false},
		"more than a request":  {slices.Repeat([]esdb.EventData{sized(10, 1_500_000)}, 12), false},
		"more than one in all": {slices.Repeat([]esdb.EventData{sized(100_000, 0)}, 11), false},
	} {
		_, err := client.AppendToStream(t.Context(), name, esdb.AppendToStreamOptions{
			ExpectedRevision: esdb.NoStream{},
			Deadline:         &long,
		}, c.list...)
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
	again := serve(t, node.Config{Dir: "node", FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	report, err := again.Verify(t.Context(), nil)
	if err != nil || !report.OK() || report.Events != uint64(len(many))+1+1+8 {
		t.Errorf("after a crash: %+v, %v", report, err)
	}
	list, err := readStream(again.client(t), "much metadata", esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
	if err != nil || len(list) != 8 || len(list[7].Event.UserMetadata) != 1_500_000 {
		t.Errorf("%d events, %v", len(list), err)
	}
}

// Real servers remember an id for one of its streams only; the node does for each.
func TestIDsAreRememberedForEachStream(t *testing.T) {
	t.Parallel()
	client := start(t)
	a := event("tested", "{}")
	for _, stream := range []string{"s", "t"} {
		appendTo(t, client, stream, esdb.Any{}, a, a)
	}
	for _, stream := range []string{"s", "t"} {
		appendTo(t, client, stream, esdb.Any{}, a, a)
		appendTo(t, client, stream, esdb.Any{}, a)
		list, err := readStream(client, stream, esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
		if err != nil || len(list) != 2 {
			t.Errorf("stream %s has %d events, %v", stream, len(list), err)
		}
	}
}
