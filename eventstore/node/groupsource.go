package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/node/internal/persistent"
	"carillon/eventstore/node/internal/store"
	"carillon/eventstore/node/internal/wire"
)

const (
	groupStreamPrefix  = "$persistentsubscription-"
	parkedStreamSuffix = "-parked"
	// maxSourceBytes bounds one read for a group.
	maxSourceBytes = 4 << 20
)

// groupSource reads for a group and keeps its state: the backing of a persistent subscription.
type groupSource struct {
	node   *Node
	config groupConfig
	filter *filter
	parked string
	follow func() <-chan struct{}
	close  func()
}

var _ persistent.Backing = (*groupSource)(nil)

func (n *Node) newGroupSource(config groupConfig) (*groupSource, error) {
	s := &groupSource{
		node: n, config: config, parked: groupStreamPrefix + config.name() + parkedStreamSuffix,
		follow: n.store.Advanced, close: func() {},
	}
	if f := config.Settings.Filter; f != nil {
		var err error
		if s.filter, err = storedFilter(f.ByType, f.Prefixes, f.Pattern); err != nil {
			return nil, err
		}
		n.filters.keep(s.filter)
	}
	if !config.isAll() {
		s.follow, s.close = n.store.Follow(config.Stream)
	}
	return s, nil
}

// Changed implements persistent.Backing.
func (s *groupSource) Changed() <-chan struct{} { return s.follow() }

// Close implements persistent.Backing.
func (s *groupSource) Close() {
	s.filter.release()
	s.close()
}

// End implements persistent.Backing.
func (s *groupSource) End(ctx context.Context) (uint64, error) {
	if s.config.isAll() {
		return s.node.store.Watermark(), nil
	}
	stream, err := s.node.store.Stream(ctx, s.config.Stream)
	if err != nil {
		return 0, err
	}
	return endOf(stream), nil
}

// endOf is the cursor behind a stream's last event.
func endOf(stream store.Stream) uint64 {
	if stream.Tombstoned() {
		return store.MaxRevision + 1
	}
	return uint64(stream.Last() + 1) // #nosec G115 -- at least -1
}

// Read implements persistent.Backing.
func (s *groupSource) Read(ctx context.Context, cursor uint64, limit int) ([]persistent.Event, uint64, error) {
	collect := &collecting{source: s, ctx: ctx, limit: limit}
	if s.config.isAll() {
		return s.readAll(collect, cursor)
	}
	stream, err := s.node.store.Stream(ctx, s.config.Stream)
	switch {
	case err != nil:
		return nil, cursor, err
	case stream.Tombstoned() && cursor <= store.MaxRevision:
		return s.readTombstone(collect, stream)
	case !stream.Exists():
		return nil, cursor, nil
	}
	end := max(cursor, uint64(stream.Last()+1)) // #nosec G115 -- exists
	err = s.node.store.ReadStream(stream, cursor, store.Forwards, func(record store.Record) bool {
		collect.add(record, record.Revision()+1)
		if collect.full() {
			end = record.Revision() + 1
		}
		return !collect.full()
	})
	return collect.events, end, errors.Join(err, collect.err)
}

// readTombstone reads all that is left of a stream that was ended.
func (s *groupSource) readTombstone(collect *collecting, stream store.Stream) ([]persistent.Event, uint64, error) {
	tombstone, err := s.node.store.TombstoneOf(stream)
	switch {
	case err == nil:
		collect.add(tombstone, endOf(stream))
	case !errors.Is(err, store.ErrNotFound):
		return nil, 0, err
	}
	return collect.events, endOf(stream), collect.err
}

func (s *groupSource) readAll(collect *collecting, cursor uint64) ([]persistent.Event, uint64, error) {
	budget := scanBudget
	last, _, err := s.node.store.ReadAll(cursor, func(record store.Record) bool {
		var wanted bool
		if wanted, collect.err = s.wants(record); wanted {
			collect.add(record, record.Position)
		}
		budget--
		return budget > 0 && !collect.full()
	})
	return collect.events, last, errors.Join(err, collect.err)
}

// wants leaves out what groups on $all write themselves, or parking would feed them for ever.
func (s *groupSource) wants(record store.Record) (bool, error) {
	stream, _, err := record.Names()
	if err != nil {
		return false, err
	}
	own := bytes.TrimPrefix(stream, []byte("$$"))
	if bytes.HasPrefix(own, []byte(groupStreamPrefix+allStream+"::")) ||
		bytes.HasPrefix(stream, []byte(groupStreamPrefix+allStream+"::")) {
		return false, nil
	}
	return s.filter.matches(record)
}

// collecting gathers events for a group.
type collecting struct {
	source *groupSource
	ctx    context.Context //nolint:containedctx // of the one read that it lives for
	limit  int
	size   int
	events []persistent.Event
	err    error
}

func (c *collecting) full() bool {
	return c.err != nil || len(c.events) >= c.limit || c.size >= maxSourceBytes
}

func (c *collecting) add(record store.Record, next uint64) {
	kept := record.Clone()
	event, err := c.source.event(c.ctx, &kept, next)
	if err != nil {
		c.err = err
		return
	}
	c.size += event.Size
	c.events = append(c.events, event)
}

// event makes a record ready for consumers.
func (s *groupSource) event(ctx context.Context, record *store.Record, next uint64) (persistent.Event, error) {
	content, err := s.node.resolved(ctx, record, s.config.Settings.ResolveLinks)
	if err != nil {
		return persistent.Event{}, err
	}
	event := persistent.Event{ID: record.ID(), Next: next, Content: content}
	for _, part := range []*store.Record{content.Event, content.Link} {
		if part != nil {
			event.Size += len(part.Tail())
		}
	}
	if strategy := s.config.Settings.Strategy; strategy == persistent.Pinned || strategy == persistent.PinnedByCorrelation {
		event.Pin, err = s.pin(content)
	}
	return event, err
}

// pin is what keeps events together on one consumer: the stream they come from, or their correlation.
func (s *groupSource) pin(content wire.Event) (string, error) {
	record := content.Event
	if record == nil {
		record = content.Link
	}
	metadata, data, err := record.Content()
	if err != nil {
		return "", err
	}
	if s.config.Settings.Strategy == persistent.PinnedByCorrelation {
		var fields struct {
			Correlation string `json:"$correlationId"`
		}
		if json.Unmarshal(metadata, &fields) == nil && fields.Correlation != "" {
			return fields.Correlation, nil
		}
	}
	if stream, _, ok := parseLink(data); ok && record.IsLink() {
		return stream, nil
	}
	stream, _, err := record.Names()
	return string(stream), err
}

// SaveCheckpoint implements persistent.Backing.
func (s *groupSource) SaveCheckpoint(ctx context.Context, cursor uint64) error {
	value, err := json.Marshal(checkpoint{Cursor: cursor})
	if err != nil {
		return err
	}
	return s.node.store.Put(ctx, store.PartWrite{Name: checkpointPart + s.config.key(), Value: value})
}

// parkedMetadata is what is told with an event that is set aside. Clients know the names.
type parkedMetadata struct {
	Added    string `json:"added"`
	Reason   string `json:"reason"`
	Revision uint64 `json:"subscriptionEventNumber"`
}

// parkedLink leads to the event that is set aside, also where it came from there.
func (s *groupSource) parkedLink(record *store.Record) ([]byte, error) {
	stream, _, err := record.Names()
	if err != nil {
		return nil, err
	}
	if string(stream) == s.parked {
		_, data, err := record.Content()
		return bytes.Clone(data), err
	}
	return linkTo(*record)
}

// Park implements persistent.Backing.
func (s *groupSource) Park(ctx context.Context, rejected []persistent.Rejected) error {
	added := s.node.config.Now().UTC().Format(time.RFC3339Nano)
	links := make([]store.Proposed, 0, len(rejected))
	for _, r := range rejected {
		link, err := s.parkedLink(r.Event.Content.Original())
		if err != nil {
			return err
		}
		_, revision, _ := parseLink(link)
		metadata, err := json.Marshal(parkedMetadata{Added: added, Reason: r.Reason, Revision: revision})
		if err != nil {
			return err
		}
		links = append(links, store.Propose(store.EventContent{
			ID: store.EventID(uuid.New()), Stream: s.parked, Type: []byte(store.LinkType), JSON: true,
			Metadata: metadata, Data: link,
		}))
	}
	_, err := s.node.store.Append(ctx, s.parked, store.Any(), links)
	return err
}

// Parked implements persistent.Backing.
func (s *groupSource) Parked(ctx context.Context) (first, end uint64, err error) {
	stream, err := s.node.store.Stream(ctx, s.parked)
	if err != nil || !stream.Exists() {
		return 0, 0, err
	}
	end = uint64(stream.Last() + 1) // #nosec G115 -- exists
	return min(stream.First(), end), end, nil
}

// ReadParked implements persistent.Backing.
func (s *groupSource) ReadParked(
	ctx context.Context, from, end uint64, limit int,
) (events []persistent.Event, next uint64, err error) {
	stream, err := s.node.store.Stream(ctx, s.parked)
	if err != nil || !stream.Exists() {
		return nil, end, err
	}
	var links []store.Record
	err = s.node.store.ReadStream(stream, from, store.Forwards, func(record store.Record) bool {
		if record.Revision() >= end {
			return false
		}
		links = append(links, record.Clone())
		return len(links) < limit
	})
	if err != nil {
		return nil, from, err
	}
	next = end
	if len(links) == limit {
		next = links[limit-1].Revision() + 1
	}
	for _, link := range links {
		target, err := s.node.resolved(ctx, &link, true)
		if err != nil {
			return nil, from, err
		}
		if target.Event == nil {
			continue // deleted meanwhile
		}
		event, err := s.event(ctx, target.Event, link.Revision()+1)
		if err != nil {
			return nil, from, err
		}
		if event.Content.Event == nil {
			event.Content.Event = target.Event // itself a link, to what is gone
		}
		event.Content.Link, event.ID = &link, link.ID()
		event.Size += len(link.Tail())
		events = append(events, event)
	}
	return events, next, nil
}

// DropParked implements persistent.Backing.
func (s *groupSource) DropParked(ctx context.Context, before uint64) error {
	stream := store.MetadataStream(s.parked)
	_, err := s.node.store.Append(ctx, stream, store.Any(), []store.Proposed{store.Propose(store.EventContent{
		ID: store.EventID(uuid.New()), Stream: stream, Type: []byte(store.MetadataType), JSON: true,
		Data: fmt.Appendf(nil, `{"$tb":%d}`, before),
	})})
	return err
}
