// Package instant writes timestamps: in UTC with "Z" and six fraction digits for programs, in a zone for people. One
// instant is one text, and texts for programs sort as their instants.
package instant

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const layout = "2006-01-02T15:04:05.000000Z"

// Append appends the text of an instant.
func Append(to []byte, at time.Time) []byte { return at.UTC().AppendFormat(to, layout) }

// Text returns the text of an instant.
func Text(at time.Time) string { return at.UTC().Format(layout) }

// Shown returns the text of an instant for people: in a zone, with its offset, to the second.
func Shown(at time.Time, zone *time.Location) string { return at.In(zone).Format(time.RFC3339) }

// Sequence returns the place in the log of an event that was recorded at an instant: 20 digits, which sort as text. The
// embedded event store records no two events at one instant, and a copy keeps when an event was recorded first.
func Sequence(recorded time.Time) string {
	digits := strconv.FormatInt(max(recorded.UnixMicro(), 0), 10)
	return "00000000000000000000"[len(digits):] + digits
}

// JSON has every time of an answer written as Text does.
var JSON = json.WithMarshalers(json.MarshalToFunc(func(to *jsontext.Encoder, at time.Time) error {
	var room [len(layout) + 2]byte
	return to.WriteValue(append(Append(append(room[:0], '"'), at), '"'))
}))

// Stamp is a time that encoding/json writes as Text does.
type Stamp time.Time

// MarshalText implements encoding.TextMarshaler.
func (s Stamp) MarshalText() ([]byte, error) { return Append(nil, time.Time(s)), nil }

// Stamped is an optional time as an optional Stamp.
func Stamped(at *time.Time) *Stamp { return (*Stamp)(at) }
