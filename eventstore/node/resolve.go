package node

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"carillon/eventstore/node/internal/store"
	"carillon/eventstore/node/internal/wire"
)

// resolved follows a link, where asked to and where the record is one. A link that leads nowhere any more is sent
// without an event; one that never could lead anywhere is an event like any other.
func (n *Node) resolved(ctx context.Context, record *store.Record, resolve bool) (wire.Event, error) {
	if !resolve || !record.IsLink() {
		return wire.Event{Event: record}, nil
	}
	_, data, err := record.Content()
	if err != nil {
		return wire.Event{}, err
	}
	stream, revision, ok := parseLink(data)
	if !ok {
		return wire.Event{Event: record}, nil
	}
	target, err := n.store.Event(ctx, stream, revision)
	if errors.Is(err, store.ErrNotFound) {
		return wire.Event{Link: record}, nil
	}
	if err != nil {
		return wire.Event{}, err
	}
	return wire.Event{Event: &target, Link: record}, nil
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
