package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
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

func TestTruncation(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	client := serve(t, node.Config{Now: func() time.Time { return time.Unix(0, now.Load()) }}).client(t)
	from := func(stream string, options esdb.ReadStreamOptions) (numbers []uint64) {
		list, err := readStream(client, stream, options, 100)
		if err != nil {
			t.Fatalf("%s: %v", stream, err)
		}
		for _, one := range list {
			numbers = append(numbers, one.Event.EventNumber)
		}
		return numbers
	}
	forwards := esdb.ReadStreamOptions{From: esdb.Start{}}
	backwards := esdb.ReadStreamOptions{From: esdb.End{}, Direction: esdb.Backwards}
	for _, c := range []struct {
		name        string
		change      func(*esdb.StreamMetadata)
		first, last uint64
		wait        time.Duration
	}{
		{"count", func(m *esdb.StreamMetadata) { m.SetMaxCount(3) }, 7, 9, 0},
		{"before", func(m *esdb.StreamMetadata) { m.SetTruncateBefore(4) }, 4, 9, 0},
		{"young", func(m *esdb.StreamMetadata) { m.SetMaxAge(time.Hour) }, 0, 9, 0},
		{"both", func(m *esdb.StreamMetadata) { m.SetMaxCount(8); m.SetTruncateBefore(5) }, 5, 9, 0},
	} {
		appendTo(t, client, c.name, esdb.NoStream{}, events(10)...)
		setMetadata(t, client, c.name, c.change)
		for _, options := range []esdb.ReadStreamOptions{forwards, backwards} {
			got := from(c.name, options)
			if len(got) != int(c.last-c.first+1) || min(got[0], got[len(got)-1]) != c.first ||
				max(got[0], got[len(got)-1]) != c.last {
				t.Errorf("%s: read %v", c.name, got)
			}
		}
		if got := from(c.name, esdb.ReadStreamOptions{From: esdb.Revision(8)}); len(got) != 2 {
			t.Errorf("%s: read %v from 8", c.name, got)
		}
	}
	// Half of a stream expires: the rest is found without reading all.
	appendTo(t, client, "aged", esdb.NoStream{}, events(50)...)
	now.Add(int64(2 * time.Hour))
	appendTo(t, client, "aged", esdb.Revision(49), events(5)...)
	setMetadata(t, client, "aged", func(m *esdb.StreamMetadata) { m.SetMaxAge(time.Hour) })
	if got := from("aged", forwards); len(got) != 5 || got[0] != 50 {
		t.Errorf("aged: %v", got)
	}
	if got := from("young", forwards); len(got) != 0 {
		t.Errorf("expired as a whole: %v", got)
	}
	if got := readAll(t, client, esdb.ReadAllOptions{From: esdb.Start{}}, 1000); len(got) != 95+5 {
		t.Errorf("$all has %d events", len(got))
	}
}

func TestMetadataIsReadBack(t *testing.T) {
	t.Parallel()
	client := start(t)
	acl := esdb.Acl{}
	acl.AddReadRoles("admin")
	setMetadata(t, client, "s", func(m *esdb.StreamMetadata) { m.SetMaxCount(1) })
	setMetadata(t, client, "s", func(m *esdb.StreamMetadata) {
		m.SetMaxCount(2)
		m.SetMaxAge(3 * time.Second)
		m.SetTruncateBefore(4)
		m.SetCacheControl(5 * time.Second)
		m.SetAcl(acl)
		m.AddCustomProperty("mine", "yes")
	})
	got, err := client.GetStreamMetadata(context.Background(), "s", esdb.ReadStreamOptions{From: esdb.Start{}})
	if err != nil {
		t.Fatal(err)
	}
	if *got.MaxCount() != 2 || *got.MaxAge() != 3*time.Second || *got.TruncateBefore() != 4 ||
		*got.CacheControl() != 5*time.Second {
		t.Errorf("metadata %+v", got)
	}
	if list, err := readStream(client, "$$s", esdb.ReadStreamOptions{From: esdb.Start{}}, 10); err != nil ||
		len(list) != 1 {
		t.Errorf("a metadata stream shows %d events, %v", len(list), err)
	}
}

func TestMetadataRevivesADeletedStreamEmpty(t *testing.T) {
	t.Parallel()
	client := start(t)
	appendTo(t, client, "s", esdb.NoStream{}, events(3)...)
	if _, err := client.DeleteStream(context.Background(), "s",
		esdb.DeleteStreamOptions{ExpectedRevision: esdb.Any{}}); err != nil {
		t.Fatal(err)
	}
	setMetadata(t, client, "s", func(m *esdb.StreamMetadata) { m.AddCustomProperty("mine", "yes") })
	if list, err := readStream(client, "s", esdb.ReadStreamOptions{From: esdb.Start{}}, 10); err != nil || len(list) != 0 {
		t.Errorf("%d events came back, %v", len(list), err)
	}
	appendTo(t, client, "s", esdb.Revision(2), events(1)...)
	if list, err := readStream(client, "s", esdb.ReadStreamOptions{From: esdb.Start{}}, 10); err != nil || len(list) != 1 {
		t.Errorf("%d events, %v", len(list), err)
	}
}
