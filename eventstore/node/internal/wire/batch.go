package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"carillon/eventstore/node/internal/store"
)

// BatchRequest is one message of a BatchAppend call: a piece of an append, or all of it. It refers to the message's
// memory.
type BatchRequest struct {
	ID    []byte // the correlation id, as it was sent
	Final bool

	HasOptions bool
	Options    []byte // as they were sent: the answer repeats them
	Stream     []byte
	Expected   store.Expected
	Within     time.Duration // that the client waits for; 0: no limit
	Until      time.Time     // how older clients say so

	proposed []byte // the message, where it has events
}

// ParseBatchRequest decodes a message of a BatchAppend call, but for its events.
func ParseBatchRequest(message []byte) (request BatchRequest, err error) {
	err = fields(message, func(field protowire.Number, content []byte, value uint64) error {
		switch field {
		case 1:
			request.ID = content
		case 2:
			request.HasOptions, request.Options = true, content
			return request.parseOptions(content)
		case 3:
			request.proposed = message
		case 4:
			request.Final = value != 0
		}
		return nil
	})
	return request, err
}

func (r *BatchRequest) parseOptions(message []byte) error {
	plain := AppendRequest{}
	if err := plain.parseOptions(message); err != nil { // these fields are those of Append
		return err
	}
	r.Stream, r.Expected = plain.Stream, plain.Expected
	return fields(message, func(field protowire.Number, content []byte, _ uint64) error {
		if field != 6 && field != 7 {
			return nil
		}
		var seconds, nanos int64
		err := fields(content, func(part protowire.Number, _ []byte, value uint64) error {
			switch part {
			case 1:
				seconds = int64(value) // #nosec G115 -- bits
			case 2:
				nanos = int64(value) // #nosec G115 -- bits
			}
			return nil
		})
		const century = 100 * 365 * 24 * 3600
		switch {
		case err != nil:
			return err
		case nanos < 0 || nanos >= int64(time.Second) || seconds < 0 || seconds > century:
			return nil // no limit that makes sense
		case field == 6:
			r.Until = time.Unix(seconds, nanos)
		default:
			r.Within = time.Duration(seconds)*time.Second + time.Duration(nanos)
		}
		return nil
	})
}

// Events calls visit for each event of the message.
func (r *BatchRequest) Events(visit func(store.EventContent) error) error {
	return fields(r.proposed, func(field protowire.Number, content []byte, _ uint64) error {
		if field != 3 {
			return nil
		}
		var event store.EventContent
		if err := parseProposed(content, &event); err != nil {
			return fmt.Errorf("event of a batch: %w", err)
		}
		return visit(event)
	})
}

// AppendBatchSuccess appends the encoded answer to a successful append of a BatchAppend call. It repeats the correlation
// id and the stream; real servers don't repeat the expected position.
func AppendBatchSuccess(dst, id, options []byte, result store.Result) []byte {
	dst = protowire.AppendBytes(protowire.AppendTag(dst, 1, protowire.BytesType), id)
	var inner [64]byte
	dst = protowire.AppendTag(dst, 3, protowire.BytesType)
	dst = protowire.AppendBytes(dst, appendSuccess(inner[:0], result))
	_ = fields(options, func(field protowire.Number, content []byte, _ uint64) error { // parsed before
		if field == 1 {
			dst = protowire.AppendBytes(protowire.AppendTag(dst, 4, protowire.BytesType), content)
		}
		return nil
	})
	return dst
}
