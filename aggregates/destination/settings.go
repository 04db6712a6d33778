package destination

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
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
	// FieldsPlain are those of Plain.
	FieldsPlain = FieldsAll &^ (FieldName | FieldURL | FieldExternalID | FieldHeaders)
)

// Has reports whether a set of fields includes one of others.
func (f Field) Has(other Field) bool { return f&other != 0 }

// Declared is a row of Fields.
type Declared struct {
	Field Field
	Name  string // in JSON
	Label string // for people, and the name of its input in forms
	Input string // kind of that input: numeric, decimal, checkbox; empty for text
	// Text returns the value for people: "" if it is not set, or if it is sealed.
	Text func(Settings) string
	// Typed returns the value as forms have it. nil if it is sealed.
	Typed func(Settings) string
	// Read takes a value that was typed, or returns what is wrong with it. nil if it is sealed.
	Read func(to *Settings, typed string) (fault string)
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
	plain(FieldName, "name", "name", func(s *Settings) *string { return &s.Name }, texts),
	address(plain(FieldURL, "url", "url", func(s *Settings) *string { return &s.URL }, texts)),
	plain(FieldExternalID, "externalId", "externalId", func(s *Settings) *string { return &s.ExternalID }, texts),
	plain(FieldDebounce, "debounceWindowSeconds", "debounce",
		func(s *Settings) *int { return &s.DebounceWindowSeconds }, debounces),
	plain(FieldLimit, "maxRequestsPerSecond", "limit", func(s *Settings) *Rate { return &s.MaxRequestsPerSecond }, rates),
	plain(FieldTraceparent, "traceparent", "traceparent", func(s *Settings) *bool { return &s.Traceparent }, sent),
	{
		Field: FieldHeaders,
		Name:  "headers",
		Label: "headers",
		Text:  func(Settings) string { return "" },
		equal: func(a, b *Settings) bool { return bytes.Equal(a.Headers.Digest, b.Headers.Digest) },
		copy:  func(to, from *Settings) { to.Headers = from.Headers },
	},
}

// kind is how values are shown and typed.
type kind[T comparable] struct {
	input    string
	words    func(T) string // of a value that is not zero
	typed    func(T) string
	read     func(string) (T, error)
	mistyped string         // the fault of a text that read refuses
	fault    func(T) string // Optional
}

var (
	same  = func(text string) string { return text }
	texts = kind[string]{words: same, typed: same, read: func(typed string) (string, error) { return typed, nil }}
	sent  = kind[bool]{
		input: "checkbox",
		words: func(bool) string { return "sent" },
		typed: func(on bool) string { return map[bool]string{true: "on", false: "off"}[on] },
		read:  func(typed string) (bool, error) { return typed != "" && typed != "off", nil },
	}
	debounces = kind[int]{
		input:    "numeric",
		words:    func(seconds int) string { return strconv.Itoa(seconds) + " s" },
		typed:    strconv.Itoa,
		read:     func(typed string) (int, error) { return strconv.Atoi(strings.TrimSpace(typed)) },
		mistyped: "must be a number of seconds, 0 for none",
		fault:    bounds(0, MaxDebounce, fmt.Sprintf("must be 0 to %d", MaxDebounce)),
	}
	rates = kind[Rate]{
		input: "decimal",
		words: Rate.String,
		typed: func(r Rate) string {
			if r == 0 {
				return ""
			}
			return strconv.FormatFloat(float64(r), 'f', -1, 64)
		},
		read:     readRate,
		mistyped: "must be a number",
		fault:    bounds[Rate](LeastRequestsPerSecond, MostRequestsPerSecond, LimitBounds),
	}
)

// readRate reads a limit. None is an empty text, not 0.
func readRate(typed string) (Rate, error) {
	if typed = strings.TrimSpace(typed); typed == "" {
		return 0, nil
	}
	rate, err := strconv.ParseFloat(typed, 64)
	if rate == 0 || math.IsNaN(rate) {
		err = strconv.ErrRange
	}
	return Rate(rate), err
}

// bounds returns the fault of numbers other than zero and those from least to most.
func bounds[T int | Rate](least, most T, fault string) func(T) string {
	return func(value T) string {
		if value != 0 && (value < least || value > most) {
			return fault
		}
		return ""
	}
}

// plain declares a setting that is shown as it is stored.
func plain[T comparable](field Field, name, label string, of func(*Settings) *T, as kind[T]) Declared {
	return Declared{
		Field: field,
		Name:  name,
		Label: label,
		Input: as.input,
		Text: func(s Settings) string {
			var zero T
			if value := *of(&s); value != zero {
				return as.words(value)
			}
			return ""
		},
		Typed: func(s Settings) string { return as.typed(*of(&s)) },
		Read: func(to *Settings, typed string) string {
			value, err := as.read(typed)
			if err != nil {
				return as.mistyped
			}
			*of(to) = value
			return ""
		},
		Fault: func(s Settings) string {
			if as.fault == nil {
				return ""
			}
			return as.fault(*of(&s))
		},
		equal: func(a, b *Settings) bool { return *of(a) == *of(b) },
		copy:  func(to, from *Settings) { *of(to) = *of(from) },
	}
}

// address includes the sealed address in the masked one.
func address(d Declared) Declared {
	equal, masked := d.equal, d.copy
	d.equal = func(a, b *Settings) bool { return equal(a, b) && bytes.Equal(a.Address.Digest, b.Address.Digest) }
	d.copy = func(to, from *Settings) { masked(to, from); to.Address = from.Address }
	return d
}

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
