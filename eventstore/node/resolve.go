package node

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore/node/internal/store"
)

// resolved follows a link, if asked to and if the record is one. A link whose event is gone is sent without an event;
// an invalid link is an event like any other.
func (n *Node) resolved(ctx context.Context, record *store.Record, resolve bool) (resolvedEvent, error) {
	if !resolve || !record.IsLink() {
		return resolvedEvent{event: record}, nil
	}
	_, data, err := record.Content()
	if err != nil {
		return resolvedEvent{}, err
	}
	stream, revision, ok := parseLink(data)
	if !ok {
		return resolvedEvent{event: record}, nil
	}
	target, err := n.store.Event(ctx, stream, revision)
	if errors.Is(err, store.ErrNotFound) {
		return resolvedEvent{link: record}, nil
	}
	if err != nil {
		return resolvedEvent{}, err
	}
	return resolvedEvent{event: &target, link: record}, nil
}

// parseLink reads what a link says: "revision@stream".
func parseLink(data []byte) (stream string, revision uint64, ok bool) {
	number, name, ok := bytes.Cut(data, []byte{'@'})
	if !ok || len(name) == 0 {
		return "", 0, false
	}
	revision, err := strconv.ParseUint(string(number), 10, 63)
	return string(name), revision, err == nil
}

// page collects messages, so that none is sent, which may take long, while the storage is read.
type page struct {
	messages []*streams.ReadResp
	size     int
}

const (
	maxPageBytes = 64 << 10 // one message may go beyond
	// maxPageMessages keeps small events from being held up.
	maxPageMessages = 256
)

func (p *page) add(message *streams.ReadResp, size int) {
	p.messages = append(p.messages, message)
	p.size += size
}

// full reports whether the page should be sent before more is added.
func (p *page) full() bool { return p.size >= maxPageBytes || len(p.messages) >= maxPageMessages }

// send sends the messages and empties the page.
func (p *page) send(call streams.Streams_ReadServer) error {
	for i, message := range p.messages {
		p.messages[i] = nil
		if err := call.Send(message); err != nil {
			return err
		}
	}
	p.messages, p.size = p.messages[:0], 0
	return nil
}
