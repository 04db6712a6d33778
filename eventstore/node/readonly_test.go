package node_test

import (
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
)

// A node that is opened for reading serves what there is, refuses all else, and leaves the directory alone.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := node.Open(node.Config{Dir: dir + "/none", ReadOnly: true}); err == nil {
		t.Error("opened what isn't there")
	}
	s := serve(t, node.Config{Dir: dir})
	client := s.client(t)
	appendTo(t, client, "s", esdb.NoStream{}, events(3)...)
	s.stop(t)
	s = serve(t, node.Config{Dir: dir, ReadOnly: true})
	client = s.client(t)
	if list, err := readStream(client, "s", esdb.ReadStreamOptions{From: esdb.Start{}}, 10); err != nil || len(list) != 3 {
		t.Errorf("%d events, %v", len(list), err)
	}
	if list, _ := untilCaughtUp(t,
		subscribeAll(t, client, esdb.SubscribeToAllOptions{From: esdb.Start{}})); len(list) != 3 {
		t.Errorf("subscribed to %d events", len(list))
	}
	for name, try := range map[string]func() error{
		"append": func() error {
			_, err := client.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}},
				events(1)...)
			return err
		},
		"delete": func() error {
			_, err := client.DeleteStream(t.Context(), "s", esdb.DeleteStreamOptions{ExpectedRevision: esdb.Any{}})
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "read-only") &&
			code(err) != esdb.ErrorCodeAccessDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.stop(t)
	client = serve(t, node.Config{Dir: dir}).client(t)
	appendTo(t, client, "s", esdb.Revision(2), events(1)...)
}
