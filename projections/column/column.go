// Package column carries Go values to and from Postgres as whole columns: arrays as unnest takes them, with SQL's NULL
// for Go's zero values. pgx would convert each uuid.UUID by way of its text, which was half of a projection's cost.
package column

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Columns of values.
type (
	// UUIDs are stored as they are.
	UUIDs []uuid.UUID
	// NullUUIDs are stored as NULL if they are zero; so are the others.
	NullUUIDs []uuid.UUID
	// Times are NULL if they are zero.
	Times []time.Time
	// NullTexts are NULL if they are empty.
	NullTexts []string
	// NullInts are NULL if they are 0.
	NullInts []int
)

// UUID reads a column of type uuid into an id; NULL reads as the zero UUID.
func UUID(into *uuid.UUID) pgtype.UUIDScanner { return (*uuidElement)(into) }

// Time reads a column of type timestamptz; NULL reads as the zero time.
func Time(into *time.Time) pgtype.TimestamptzScanner { return (*timeElement)(into) }

// Text reads a column of type text; NULL reads as the empty string.
func Text(into *string) pgtype.TextScanner { return (*textElement)(into) }

// The elements are pointers into the slices, because a pointer becomes an interface without an allocation.
type (
	uuidElement     uuid.UUID
	nullUUIDElement uuid.UUID
	timeElement     time.Time
	textElement     string
	intElement      int
)

// UUIDValue implements pgtype.UUIDValuer.
func (e *uuidElement) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: *e, Valid: true}, nil
}

// ScanUUID implements pgtype.UUIDScanner.
func (e *uuidElement) ScanUUID(v pgtype.UUID) error { *e = v.Bytes; return nil }

// UUIDValue implements pgtype.UUIDValuer.
func (e *nullUUIDElement) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: *e, Valid: *e != nullUUIDElement{}}, nil
}

// TimestamptzValue implements pgtype.TimestamptzValuer.
func (e *timeElement) TimestamptzValue() (pgtype.Timestamptz, error) {
	at := time.Time(*e)
	return pgtype.Timestamptz{Time: at, Valid: !at.IsZero()}, nil
}

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (e *timeElement) ScanTimestamptz(v pgtype.Timestamptz) error {
	*e = timeElement(v.Time)
	return nil
}

// TextValue implements pgtype.TextValuer.
func (e *textElement) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: string(*e), Valid: *e != ""}, nil
}

// ScanText implements pgtype.TextScanner.
func (e *textElement) ScanText(v pgtype.Text) error { *e = textElement(v.String); return nil }

// Int64Value implements pgtype.Int64Valuer.
func (e *intElement) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(*e), Valid: *e != 0}, nil
}

func dimensions(n int) []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(n), LowerBound: 1}} //nolint:gosec // batches are far smaller
}

// Dimensions implements pgtype.ArrayGetter.
func (c UUIDs) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }

// Index implements pgtype.ArrayGetter.
func (c UUIDs) Index(i int) any { return (*uuidElement)(&c[i]) }

// IndexType implements pgtype.ArrayGetter.
func (c UUIDs) IndexType() any { return (*uuidElement)(nil) }

// Dimensions implements pgtype.ArrayGetter.
func (c NullUUIDs) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }

// Index implements pgtype.ArrayGetter.
func (c NullUUIDs) Index(i int) any { return (*nullUUIDElement)(&c[i]) }

// IndexType implements pgtype.ArrayGetter.
func (c NullUUIDs) IndexType() any { return (*nullUUIDElement)(nil) }

// Dimensions implements pgtype.ArrayGetter.
func (c Times) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }

// Index implements pgtype.ArrayGetter.
func (c Times) Index(i int) any { return (*timeElement)(&c[i]) }

// IndexType implements pgtype.ArrayGetter.
func (c Times) IndexType() any { return (*timeElement)(nil) }

// Dimensions implements pgtype.ArrayGetter.
func (c NullTexts) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }

// Index implements pgtype.ArrayGetter.
func (c NullTexts) Index(i int) any { return (*textElement)(&c[i]) }

// IndexType implements pgtype.ArrayGetter.
func (c NullTexts) IndexType() any { return (*textElement)(nil) }

// Dimensions implements pgtype.ArrayGetter.
func (c NullInts) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }

// Index implements pgtype.ArrayGetter.
func (c NullInts) Index(i int) any { return (*intElement)(&c[i]) }

// IndexType implements pgtype.ArrayGetter.
func (c NullInts) IndexType() any { return (*intElement)(nil) }
