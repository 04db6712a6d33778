package eventstore

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON is a JSON value that is kept as it came.
type JSON = jsontext.Value

// ErrUndecodable: a stored event has an unknown name or unreadable data. Readers must stop, never skip.
var ErrUndecodable = errors.New("undecodable event")

// Codec translates between the events of one aggregate and their stored form. E is the aggregate's event interface.
type Codec[E any] struct {
	byName map[string]func([]byte) (E, error)
	byType map[reflect.Type]string
}

// EventCase is one line of a Codec; make it with Case or Upcast.
type EventCase[E any] struct {
	name   string
	goType reflect.Type // nil for an upcast: nothing is written under an old name
	decode func([]byte) (E, error)
}

// Case stores events of Go type T under a name. A name is never changed and never reused.
func Case[E any, T any](name string) EventCase[E] {
	return EventCase[E]{name: name, goType: reflect.TypeFor[T](), decode: func(data []byte) (E, error) {
		var event T
		if err := json.Unmarshal(data, &event); err != nil {
			var none E
			return none, err
		}
		//nolint:errcheck,forcetypeassert // a T that is no E is a mistake in the source, which its first test finds
		return any(event).(E), nil
	}}
}

// Upcast converts an event stored under an old name, with its old fields, to a current one.
func Upcast[E any, Old any](name string, up func(Old) E) EventCase[E] {
	return EventCase[E]{name: name, decode: func(data []byte) (E, error) {
		var old Old
		if err := json.Unmarshal(data, &old); err != nil {
			var none E
			return none, err
		}
		return up(old), nil
	}}
}

// NewCodec makes a codec of its cases. It panics on a name or type given twice: that is a mistake in the source.
func NewCodec[E any](cases ...EventCase[E]) Codec[E] {
	c := Codec[E]{byName: map[string]func([]byte) (E, error){}, byType: map[reflect.Type]string{}}
	for _, ec := range cases {
		if _, twice := c.byName[ec.name]; twice {
			panic("eventstore: event name used twice: " + ec.name)
		}
		c.byName[ec.name] = ec.decode
		if ec.goType == nil {
			continue
		}
		if _, twice := c.byType[ec.goType]; twice {
			panic("eventstore: event type used twice: " + ec.goType.String())
		}
		c.byType[ec.goType] = ec.name
	}
	return c
}

// Names lists the stored names, sorted.
func (c Codec[E]) Names() []string {
	names := make([]string, 0, len(c.byName))
	for name := range c.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Encode returns the stored name and data of an event.
func (c Codec[E]) Encode(event E) (name string, data []byte, err error) {
	name, ok := c.byType[reflect.TypeOf(event)]
	if !ok {
		return "", nil, fmt.Errorf("event type %T has no stored name", event)
	}
	data, err = json.Marshal(event, json.Deterministic(true))
	if err != nil {
		return "", nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return name, data, nil
}

// Decode reads a recorded event. It returns ErrUndecodable for an unknown name or unreadable data.
func (c Codec[E]) Decode(r *Recorded) (E, error) {
	var none E
	decode, ok := c.byName[r.Type]
	if !ok {
		return none, fmt.Errorf("%w: %s at %s@%d: unknown event name", ErrUndecodable, r.Type, r.Stream, r.Revision)
	}
	event, err := decode(r.Data)
	if err != nil {
		return none, fmt.Errorf("%w: %s at %s@%d: %w", ErrUndecodable, r.Type, r.Stream, r.Revision, err)
	}
	return event, nil
}

// SameJSON reports whether two texts are the same JSON value: the order of members, escapes, white space and the
// spelling of fractions don't matter. Integers are compared digit by digit, as they may be larger than a float64 is
// exact.
func SameJSON(a, b JSON) bool {
	if bytes.Equal(a, b) {
		return true
	}
	a, b = a.Clone(), b.Clone()
	plain := jsontext.CanonicalizeRawFloats(true)
	ordered := jsontext.ReorderRawObjects(true)
	return a.Format(plain, ordered) == nil && b.Format(plain, ordered) == nil && bytes.Equal(a, b)
}
