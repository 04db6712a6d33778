package wire

import "time"

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
