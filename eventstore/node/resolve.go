package node

import (
	"bytes"
	"context"
	"errors"
	"strconv"

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
