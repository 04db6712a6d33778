package destination

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
)

// Settings are the settings that callers may change. Each has a row in Fields.
type Settings struct {
	ExternalID string `json:"externalId,omitempty"`
	Name       string `json:"name"`
	URL        string `json:"url"`              // masked if Address is given
	Address    Sealed `json:"address,omitzero"` // the whole URL if it has a hidden part
	Headers    Sealed `json:"headers"`
	Plain
}

// Plain are the settings that are stored, shown and sent unchanged, and that no query goes by. A new one is a member of
// Answered, too, and leaves out its zero value here: events that have been stored lack it.
type Plain struct {
	DebounceWindowSeconds int `json:"debounceWindowSeconds"`
	// MaxRequestsPerSecond bounds what is sent by all processes together.
	MaxRequestsPerSecond Rate `json:"maxRequestsPerSecond,omitzero"`
	// Traceparent means that requests name the span that sends them.
	Traceparent bool `json:"traceparent,omitzero"`
}

// Answered is Plain as answers have it: with all members.
type Answered struct {
	DebounceWindowSeconds int  `json:"debounceWindowSeconds"`
	MaxRequestsPerSecond  Rate `json:"maxRequestsPerSecond"`
	Traceparent           bool `json:"traceparent"`
}

// Rate is a number of requests per second. 0 means no limit: null in JSON.
type Rate float64

// MarshalJSON implements json.Marshaler.
func (r Rate) MarshalJSON() ([]byte, error) {
	if r == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r)) //nolint:wrapcheck // the caller says what it is
}

// String describes a limit for people.
func (r Rate) String() string { return fmt.Sprintf("%g requests/s", float64(r)) }

// Field is a number of a setting, a bit each.
type Field uint

// All fields, in the order in which people see them. FieldURL includes the address.
const (
	FieldName Field = 1 << iota
	FieldURL
	FieldExternalID
	FieldDebounce
	FieldLimit
	FieldTraceparent
	FieldHeaders

	// FieldsAll are those that a replacement by name sets.
	FieldsAll Field = 1<<iota - 1
)

// Has reports whether a set of fields includes one of others.
func (f Field) Has(other Field) bool { return f&other != 0 }

// Declared is a row of Fields.
type Declared struct {
	Field Field
	Name  string // in JSON
	Label string // for people
	// Text returns the value for people: "" if it is not set, or if it is sealed.
	Text func(Settings) string
	// Fault returns what is wrong with a value, or "". Optional.
	Fault func(Settings) string

	equal func(a, b *Settings) bool
	copy  func(to, from *Settings)
}

// Bounds of numbers.
const (
	MaxDebounce            = 86400 // seconds
	LeastRequestsPerSecond = 0.1
	MostRequestsPerSecond  = 10_000
)

// LimitBounds describes the values of maxRequestsPerSecond.
var LimitBounds = fmt.Sprintf("must be null, for no limit, or a number of requests from %g to %d",
	LeastRequestsPerSecond, MostRequestsPerSecond)

// Fields declares all settings. A PATCH, its comparison, the audit trail, the CLI and the console go by it.
var Fields = []Declared{
	plain(FieldName, "name", "name", func(s *Settings) *string { return &s.Name }, text),
	{
		Field: FieldURL,
		Name:  "url",
		Label: "url",
		Text:  func(s Settings) string { return s.URL },
		equal: func(a, b *Settings) bool {
			return a.URL == b.URL && bytes.Equal(a.Address.Digest, b.Address.Digest)
		},
		copy: func(to, from *Settings) { to.URL, to.Address = from.URL, from.Address },
	},
	plain(FieldExternalID, "externalId", "externalId", func(s *Settings) *string { return &s.ExternalID }, text),
	bounded(plain(FieldDebounce, "debounceWindowSeconds", "debounce",
		func(s *Settings) *int { return &s.DebounceWindowSeconds },
		func(seconds int) string { return strconv.Itoa(seconds) + " s" }),
		func(s Settings) string {
			if s.DebounceWindowSeconds < 0 || s.DebounceWindowSeconds > MaxDebounce {
				return fmt.Sprintf("must be 0 to %d", MaxDebounce)
			}
			return ""
		}),
	bounded(plain(FieldLimit, "maxRequestsPerSecond", "limit",
		func(s *Settings) *Rate { return &s.MaxRequestsPerSecond },
		Rate.String),
		func(s Settings) string {
			limit := s.MaxRequestsPerSecond
			if limit != 0 && (limit < LeastRequestsPerSecond || limit > MostRequestsPerSecond) {
				return LimitBounds
			}
			return ""
		}),
	plain(FieldTraceparent, "traceparent", "traceparent", func(s *Settings) *bool { return &s.Traceparent },
		func(bool) string { return "sent" }),
	{
		Field: FieldHeaders,
		Name:  "headers",
		Label: "headers",
		Text:  func(Settings) string { return "" },
		equal: func(a, b *Settings) bool { return bytes.Equal(a.Headers.Digest, b.Headers.Digest) },
		copy:  func(to, from *Settings) { to.Headers = from.Headers },
	},
}

// plain declares a setting that is stored and shown as it is. words are those of a value that is not zero.
func plain[T comparable](field Field, name, label string, of func(*Settings) *T, words func(T) string) Declared {
	return Declared{
		Field: field,
		Name:  name,
		Label: label,
		Text: func(s Settings) string {
			var zero T
			if value := *of(&s); value != zero {
				return words(value)
			}
			return ""
		},
		equal: func(a, b *Settings) bool { return *of(a) == *of(b) },
		copy:  func(to, from *Settings) { *of(to) = *of(from) },
	}
}

func bounded(d Declared, fault func(Settings) string) Declared {
	d.Fault = fault
	return d
}

func text(value string) string { return value }

// Texts returns the labels and texts of the settings that have one, in the order of Fields.
func (s Settings) Texts() iter.Seq2[string, string] {
	return func(yield func(label, text string) bool) {
		for _, d := range Fields {
			if text := d.Text(s); text != "" && !yield(d.Label, text) {
				return
			}
		}
	}
}

// Equal reports whether two settings are equal, however they are sealed.
func (s Settings) Equal(t Settings) bool { return s.differing(t) == 0 }

// differing returns the fields that differ.
func (s Settings) differing(t Settings) (differing Field) {
	for _, d := range Fields {
		if !d.equal(&s, &t) {
			differing |= d.Field
		}
	}
	return differing
}

// With returns the settings with some fields of others. Values that are equal stay as they are sealed.
func (s Settings) With(fields Field, of Settings) Settings {
	fields &= s.differing(of)
	for _, d := range Fields {
		if fields.Has(d.Field) {
			d.copy(&s, &of)
		}
	}
	return s
}
