package node

import (
	"errors"
	"math"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore/node/internal/store"
)

// reading is one read call: its request, and the page being filled.
type reading struct {
	node      *Node
	call      streams.Streams_ReadServer
	options   *streams.ReadReq_Options
	stream    string // empty for $all
	stringIDs bool
	resolve   bool
	filter    *filter
	page      page
}

// Read answers reads and subscriptions of streams and of $all.
func (n streamsService) Read(request *streams.ReadReq, call streams.Streams_ReadServer) error {
	r := &reading{node: n.Node, call: call, options: request.GetOptions()}
	err := r.prepare()
	if err == nil {
		err = r.run()
	}
	return answer(call.Context(), r.stream, err)
}

func (r *reading) prepare() error {
	options := r.options
	r.resolve = options.GetResolveLinks()
	_, r.stringIDs = options.GetUuidOption().GetContent().(*streams.ReadReq_Options_UUIDOption_String_)
	switch options.GetStreamOption().(type) {
	case *streams.ReadReq_Options_Stream:
		r.stream = string(options.GetStream().GetStreamIdentifier().GetStreamName())
		if r.stream == "" {
			return invalid("the stream has no name that can be read")
		}
		if options.GetFilter() != nil {
			return invalid("only $all can be filtered")
		}
	case *streams.ReadReq_Options_All:
	default:
		return invalid("the read says neither stream nor $all")
	}
	if options.GetFilter() == nil {
		return nil
	}
	wanted, err := filterOf(options.GetFilter())
	r.filter = wanted
	return err
}

func filterOf(options *streams.ReadReq_Options_FilterOptions) (*filter, error) {
	switch expression := options.GetFilter().(type) {
	case *streams.ReadReq_Options_FilterOptions_EventType:
		return newFilter(true, expression.EventType.GetPrefix(), expression.EventType.GetRegex())
	case *streams.ReadReq_Options_FilterOptions_StreamIdentifier:
		return newFilter(false, expression.StreamIdentifier.GetPrefix(), expression.StreamIdentifier.GetRegex())
	}
	return nil, invalid("the filter says neither stream name nor event type")
}

func (r *reading) run() error {
	backwards := r.options.GetReadDirection() == streams.ReadReq_Options_Backwards
	switch count := r.options.GetCountOption().(type) {
	case *streams.ReadReq_Options_Subscription:
		if backwards {
			return invalid("a subscription goes forwards")
		}
		if r.stream == "" {
			return r.subscribeAll()
		}
		return r.subscribeStream()
	case *streams.ReadReq_Options_Count:
		switch {
		case r.stream != "":
			return r.readStream(store.Direction(backwards), count.Count)
		case backwards:
			return r.readAllBackwards(count.Count)
		default:
			return r.readAll(count.Count)
		}
	}
	return invalid("the read says neither count nor subscription")
}

// emit puts an event on the page, with its link's target if the client wants that.
func (r *reading) emit(record *store.Record) error {
	event, err := r.node.resolved(r.call.Context(), record, r.resolve)
	if err != nil {
		return err
	}
	message, size, err := event.message(r.stringIDs)
	if err != nil {
		return err
	}
	r.page.add(message, size)
	return nil
}

// readStream sends up to count events of a stream.
func (r *reading) readStream(direction store.Direction, count uint64) error {
	from := uint64(0)
	switch option := r.options.GetStream().GetRevisionOption().(type) {
	case *streams.ReadReq_Options_StreamOptions_Revision:
		from = option.Revision
	case *streams.ReadReq_Options_StreamOptions_End:
		from = math.MaxUint64
	}
	var stream store.Stream
	for begun := false; count > 0 || !begun; begun = true {
		var failed, err error
		sent := uint64(0)
		visit := func(record store.Record) bool {
			if sent == count {
				return false
			}
			failed = r.emit(&record)
			from = record.Revision()
			sent++
			return failed == nil && sent < count && !r.page.full()
		}
		if begun {
			err = r.node.store.ReadStream(stream, from, direction, visit)
		} else {
			stream, err = r.node.store.Read(r.call.Context(), r.stream, from, direction, visit)
		}
		more := r.page.full()
		switch err = errors.Join(err, failed); {
		case err != nil:
			return err
		case stream.Tombstoned():
			return streamDeleted(r.stream)
		case !stream.Exists():
			return r.notFound(stream)
		}
		ended := !more || direction == store.Backwards && from == 0
		if ended {
			if err := r.addEnds(stream, direction, begun || sent > 0); err != nil {
				return err
			}
		}
		if err := r.page.send(r.call); err != nil || ended {
			return err
		}
		count -= sent
		if direction == store.Forwards {
			from++
		} else {
			from--
		}
	}
	return nil
}

// addEnds adds the revision of a stream's last event, for clients that know of it. A read forwards that found nothing
// to read, since all events are truncated, also gets the revision of the first event that will be readable.
func (r *reading) addEnds(stream store.Stream, direction store.Direction, found bool) error {
	if r.options.GetControlOption().GetCompatibility() == 0 {
		return nil
	}
	first, err := r.node.store.FirstReadable(stream)
	if err != nil {
		return err
	}
	last := uint64(stream.Last()) // #nosec G115 -- it exists
	if direction == store.Forwards && !found && first > last {
		r.page.add(&streams.ReadResp{Content: &streams.ReadResp_FirstStreamPosition{FirstStreamPosition: first}}, 0)
	}
	r.page.add(lastPosition(last), 0)
	return nil
}

// notFound also returns the last revision of a deleted stream, to clients that support it, if the node is read-only: a
// copy must know it, and can't learn it from a refused append there. Real servers never say that, but have no need to:
// they keep each stream's last event.
func (r *reading) notFound(stream store.Stream) error {
	if err := r.call.Send(streamNotFound(r.stream)); err != nil {
		return err
	}
	if !r.node.config.ReadOnly || r.options.GetControlOption().GetCompatibility() == 0 || stream.Last() < 0 {
		return nil
	}
	return r.call.Send(lastPosition(uint64(stream.Last()))) // #nosec G115 -- not negative
}

func lastPosition(revision uint64) *streams.ReadResp {
	return &streams.ReadResp{Content: &streams.ReadResp_LastStreamPosition{LastStreamPosition: revision}}
}

func streamNotFound(stream string) *streams.ReadResp {
	return &streams.ReadResp{Content: &streams.ReadResp_StreamNotFound_{
		StreamNotFound: &streams.ReadResp_StreamNotFound{
			StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(stream)},
		},
	}}
}

// allStart returns the position that a read of $all, which includes it, or a subscription begins after, going forwards.
func (r *reading) allStart(inclusive bool) (uint64, error) {
	switch option := r.options.GetAll().GetAllOption().(type) {
	case *streams.ReadReq_Options_AllOptions_Position:
		position := option.Position.GetCommitPosition()
		err := r.node.config.Quirks.Readable(r.node.store, position, option.Position.GetPreparePosition(), !inclusive)
		if inclusive && position > 0 {
			position-- // positions have gaps, so nothing else is between
		}
		return position, err
	case *streams.ReadReq_Options_AllOptions_End:
		return math.MaxUint64, nil
	}
	return 0, nil
}

// readAll sends up to count events of $all, forwards and from the given position on.
func (r *reading) readAll(count uint64) error {
	after, err := r.allStart(true)
	if err != nil {
		return err
	}
	for count > 0 {
		var failed error
		budget := scanBudget
		last, end, err := r.node.store.ReadAll(after, func(record store.Record) bool {
			var wanted bool
			if wanted, failed = r.filter.matches(record); failed == nil && wanted {
				failed = r.emit(&record)
				count--
			}
			budget--
			return failed == nil && count > 0 && budget > 0 && !r.page.full()
		})
		if err := errors.Join(err, failed, r.call.Context().Err()); err != nil {
			return err
		}
		if err := r.page.send(r.call); err != nil {
			return err
		}
		if end {
			return nil
		}
		after = last
	}
	return nil
}

// readAllBackwards sends up to count events of $all that come before the given position, newest first.
func (r *reading) readAllBackwards(count uint64) error {
	before := uint64(0)
	switch option := r.options.GetAll().GetAllOption().(type) {
	case *streams.ReadReq_Options_AllOptions_Position:
		before = option.Position.GetCommitPosition()
		if err := r.node.config.Quirks.Readable(r.node.store, before, option.Position.GetPreparePosition(),
			false); err != nil {
			return err
		}
	case *streams.ReadReq_Options_AllOptions_End:
		before = math.MaxUint64
	}
	for count > 0 {
		var failed error
		budget := scanBudget
		more := false
		err := r.node.store.ReadAllBackwards(before, func(record store.Record) bool {
			before = record.Position
			var wanted bool
			if wanted, failed = r.filter.matches(record); failed == nil && wanted {
				failed = r.emit(&record)
				count--
			}
			budget--
			more = r.page.full() || budget == 0
			return failed == nil && count > 0 && !more
		})
		if err := errors.Join(err, failed, r.call.Context().Err()); err != nil {
			return err
		}
		if err := r.page.send(r.call); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	return nil
}
