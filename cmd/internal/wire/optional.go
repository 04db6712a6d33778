package wire

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Optional is a member of a body that may be missing, but not null.
type Optional[T any] struct {
	Value T
	Set   bool
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *Optional[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == 'n' {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		return Fail(BadBody, "", "must not be null: leave it out, or give it a value")
	}
	if err := json.UnmarshalDecode(d, &o.Value); err != nil {
		return err
	}
	o.Set = true
	return nil
}

// Pointer is the value, or nil if it is missing.
func (o Optional[T]) Pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// Clearable is an optional member whose null removes the value.
type Clearable[T any] struct {
	Value T
	Set   bool // null, too
	Null  bool
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *Clearable[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	c.Set, c.Null = true, d.PeekKind() == 'n'
	if c.Null {
		_, err := d.ReadToken()
		return err
	}
	return json.UnmarshalDecode(d, &c.Value)
}

// Optional returns the member with zero for null.
func (c Clearable[T]) Optional() Optional[T] { return Optional[T]{Value: c.Value, Set: c.Set} }

// Nullable is null in JSON for a value that stands for "none": the empty string, the id of zeros.
func Nullable[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

// UTC is an instant in UTC, or null. Postgres returns times in the zone of the machine.
func UTC(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	in := at.UTC()
	return &in
}
