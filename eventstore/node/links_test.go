package node_test

import (
	"context"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"
)

func TestLinksAreResolved(t *testing.T) {
	t.Parallel()
	client := start(t)
	ctx := context.Background()
	original := events(3)
	appendTo(t, client, "target", esdb.NoStream{}, original...)
	link := func(to string) esdb.EventData {
		return esdb.EventData{
			EventID:     uuid.New(),
			EventType:   "$>",
			ContentType: esdb.ContentTypeBinary,
			Data:        []byte(to),
		}
	}
	appendTo(t, client, "links", esdb.NoStream{}, link("1@target"), link("9@target"), link("0@none"), link("nonsense"))
	list, err := readStream(client, "links", esdb.ReadStreamOptions{From: esdb.Start{}, ResolveLinkTos: true}, 10)
	if err != nil || len(list) != 4 {
		t.Fatalf("%d events, %v", len(list), err)
	}
	if list[0].Event == nil || list[0].Event.EventID != original[1].EventID || list[0].Link == nil ||
		list[0].Link.EventNumber != 0 {
		t.Errorf("resolved %+v", list[0])
	}
	for _, broken := range list[1:3] {
		if broken.Event != nil || broken.Link == nil {
			t.Errorf("broken link %+v", broken)
		}
	}
	if list[3].Event == nil || list[3].Link != nil || string(list[3].Event.Data) != "nonsense" {
		t.Errorf("an event that was never a link %+v", list[3])
	}
	if list, err = readStream(client, "links", esdb.ReadStreamOptions{From: esdb.Start{}}, 1); err != nil ||
		list[0].Link != nil {
		t.Errorf("unresolved %+v, %v", list[0], err)
	}
	if _, err := client.TombstoneStream(ctx, "target",
		esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}}); err != nil {
		t.Fatal(err)
	}
	if list, err = readStream(client, "links", esdb.ReadStreamOptions{From: esdb.Start{}, ResolveLinkTos: true},
		1); err != nil || list[0].Event != nil {
		t.Errorf("link to a tombstoned stream %+v, %v", list[0], err)
	}
}
