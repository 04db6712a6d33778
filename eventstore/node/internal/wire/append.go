package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"

	"carillon/eventstore/node/internal/store"
)

// ErrMalformed says that a message is not what the protocol describes.
var ErrMalformed = errors.New("malformed message")

// MissingMetadataError names a required system metadata key that an event lacks.
type MissingMetadataError struct{ Key string }

func (e *MissingMetadataError) Error() string {
	return fmt.Sprintf("required metadata property %q is missing", e.Key)
}

// AppendRequest is one message of an append: either the options or an event.
type AppendRequest struct {
	IsOptions bool
	// Stream and Expected are set with the options. Stream is only valid as long as the message.
	Stream   []byte
	Expected store.Expected
	// Event is set otherwise; it refers to the message's memory and has no stream.
	Event store.EventContent
}

// System metadata keys, and the content type that marks JSON.
const (
	KeyType         = "type"
	KeyContentType  = "content-type"
	ContentTypeJSON = "application/json"
)

// field calls visit for each field of a message. Fixed-size and group fields, which the protocol never uses here, are
// skipped like all unknown ones.
func fields(message []byte, visit func(field protowire.Number, content []byte, value uint64) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return ErrMalformed
		}
		message = message[n:]
		var content []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
			number = 0
		}
		if n < 0 {
			return ErrMalformed
		}
		message = message[n:]
		if number == 0 {
			continue
		}
		if err := visit(number, content, value); err != nil {
			return err
		}
	}
	return nil
}

// ParseAppendRequest decodes one message of an append.
func ParseAppendRequest(message []byte) (request AppendRequest, err error) {
	seen := false
	err = fields(message, func(field protowire.Number, content []byte, _ uint64) error {
		switch field {
		case 1:
			seen, request.IsOptions = true, true
			return request.parseOptions(content)
		case 2:
			seen, request.IsOptions = true, false
			return parseProposed(content, &request.Event)
		}
		return nil
	})
	if err == nil && !seen {
		err = fmt.Errorf("%w: append without options or event", ErrMalformed)
	}
	return request, err
}

func (r *AppendRequest) parseOptions(message []byte) error {
	return fields(message, func(field protowire.Number, content []byte, value uint64) error {
		switch field {
		case 1:
			return fields(content, func(field protowire.Number, content []byte, _ uint64) error {
				if field == 3 {
					r.Stream = content
				}
				return nil
			})
		case 2:
			r.Expected = store.Revision(value)
		case 3:
			r.Expected = store.NoStream()
		case 4:
			r.Expected = store.Any()
		case 5:
			r.Expected = store.StreamExists()
		}
		return nil
	})
}

func parseProposed(message []byte, event *store.EventContent) error {
	hasID, hasType, hasContentType := false, false, false
	err := fields(message, func(field protowire.Number, content []byte, _ uint64) (err error) {
		switch field {
		case 1:
			hasID = true
			event.ID, err = parseUUID(content)
		case 2:
			var key, value []byte
			if key, value, err = parseMapEntry(content); err != nil {
				return err
			}
			switch string(key) {
			case KeyType:
				event.Type, hasType = string(value), true
			case KeyContentType:
				event.JSON, hasContentType = string(value) == ContentTypeJSON, true
			}
		case 3:
			event.Metadata = content
		case 4:
			event.Data = content
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !hasID:
		return fmt.Errorf("%w: event without id", ErrMalformed)
	case !hasType:
		return &MissingMetadataError{KeyType}
	case !hasContentType:
		return &MissingMetadataError{KeyContentType}
	}
	return nil
}

func parseMapEntry(message []byte) (key, value []byte, err error) {
	err = fields(message, func(field protowire.Number, content []byte, _ uint64) error {
		switch field {
		case 1:
			key = content
		case 2:
			value = content
		}
		return nil
	})
	return key, value, err
}

func parseUUID(message []byte) (id store.EventID, err error) {
	err = fields(message, func(field protowire.Number, content []byte, _ uint64) error {
		switch field {
		case 1:
			return fields(content, func(field protowire.Number, _ []byte, value uint64) error {
				switch field {
				case 1:
					binary.BigEndian.PutUint64(id[:8], value)
				case 2:
					binary.BigEndian.PutUint64(id[8:], value)
				}
				return nil
			})
		case 2:
			parsed, err := uuid.ParseBytes(content)
			if err != nil {
				return fmt.Errorf("%w: event id: %w", ErrMalformed, err)
			}
			id = store.EventID(parsed)
		}
		return nil
	})
	return id, err
}

// AppendSuccess appends the encoded answer to a successful append.
func AppendSuccess(dst []byte, result store.Result) []byte {
	var inner [64]byte
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	return protowire.AppendBytes(dst, appendSuccess(inner[:0], result))
}

func appendSuccess(success []byte, result store.Result) []byte {
	if result.Revision >= 0 {
		success = protowire.AppendTag(success, 1, protowire.VarintType)
		success = protowire.AppendVarint(success, uint64(result.Revision))
	} else {
		success = protowire.AppendTag(success, 2, protowire.BytesType)
		success = protowire.AppendVarint(success, 0)
	}
	if result.Position > 0 {
		success = protowire.AppendTag(success, 3, protowire.BytesType)
		success = protowire.AppendVarint(success, uint64(2*(1+protowire.SizeVarint(result.Position))))
		success = protowire.AppendTag(success, 1, protowire.VarintType)
		success = protowire.AppendVarint(success, result.Position)
		success = protowire.AppendTag(success, 2, protowire.VarintType)
		success = protowire.AppendVarint(success, result.Position)
	} else {
		success = protowire.AppendTag(success, 4, protowire.BytesType)
		success = protowire.AppendVarint(success, 0)
	}
	return success
}
