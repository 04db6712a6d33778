package esdb_test

import (
	"bytes"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/samples"

	"carillon/eventstore/node"
)

// The examples in the client's documentation run as they are. They panic if a server does not do what they expect.
func TestClientExamples(t *testing.T) {
	t.Parallel()
	n, err := node.Open(node.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	config, err := client.ParseConnectionString("esdb://" + listener.Addr().String() + "?tls=false")
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = client.NoopLogging()
	// Left open: the examples end with the node, and closing a client without one can panic.
	db, err := client.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	for range 15 { // they claim that the events which they read exist
		for _, stream := range []string{"some-stream", "concurrency-stream"} {
			event := client.EventData{EventType: "some-event", ContentType: client.ContentTypeJson, Data: []byte(`{}`)}
			_, err := db.AppendToStream(t.Context(), stream, client.AppendToStreamOptions{}, event)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, example := range map[string]func(*client.Client){
		"append":                     samples.AppendToStream,
		"append with the same id":    samples.AppendWithSameId,
		"append with no stream":      samples.AppendWithNoStream,
		"append with a check":        samples.AppendWithConcurrencyCheck,
		"append as another user":     samples.AppendToStreamOverridingUserCredentials,
		"read a stream":              samples.ReadFromStream,
		"read from a revision":       samples.ReadFromStreamPosition,
		"read as another user":       samples.ReadStreamOverridingUserCredentials,
		"read with a check":          samples.ReadFromStreamPositionCheck,
		"read backwards":             samples.ReadStreamBackwards,
		"read all":                   samples.ReadFromAllStream,
		"read all but system events": samples.IgnoreSystemEvents,
		"read all backwards":         samples.ReadFromAllBackwards,
		"read with links":            samples.ReadFromStreamResolvingLinkToS,
		"read all as another user":   samples.ReadAllOverridingUserCredentials,
	} {
		t.Run(name, func(*testing.T) { example(db) })
	}
	const examples = 6
	var endless sync.WaitGroup
	ended := make(chan string, examples)
	for name, example := range map[string]func(*client.Client){
		"subscribe but to system events": samples.ExcludeSystemEvents,
		"subscribe by type":              samples.EventTypePrefix,
		"subscribe by type expression":   samples.EventTypeRegex,
		"subscribe by stream":            samples.StreamPrefix,
		"subscribe by stream expression": samples.StreamRegex,
		"subscribe with checkpoints":     samples.CheckpointCallbackWithInterval,
	} {
		endless.Go(func() {
			example(db) // until the subscription is dropped
			ended <- name
		})
	}
	deadline := time.After(time.Minute)
	for waiting := 0; waiting < examples; waiting = subscribed() {
		select {
		case name := <-ended:
			t.Fatalf("%s: it ended by itself", name)
		case <-deadline:
			t.Fatalf("%d of %d examples are subscribed", waiting, examples)
		case <-time.After(time.Millisecond):
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	endless.Wait()
}

// subscribed counts the examples that wait for an event. Nothing else shows that their subscriptions stand, and one
// that does not stand yet when the node closes panics.
func subscribed() (n int) {
	stacks := make([]byte, 1<<20)
	for goroutine := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
		if bytes.Contains(goroutine, []byte("/samples.")) && bytes.Contains(goroutine, []byte(".(*Subscription).Recv(")) {
			n++
		}
	}
	return n
}
