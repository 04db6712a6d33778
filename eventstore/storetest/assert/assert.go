// Package assert fails a test that does not find what it expects, and lets it continue.
package assert

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// OK expects no error.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}

// True expects that a condition holds. The format says what was found.
func True(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	if !holds {
		tb.Errorf(format, args...)
	}
}

// Equal compares two values with ==. The format names them.
func Equal[T comparable](tb testing.TB, got, want T, format string, args ...any) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s: %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// Slices compares two slices by their elements. No elements are the same as nil.
func Slices[T comparable](tb testing.TB, got, want []T, format string, args ...any) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("%s: %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// Is compares an error with errors.Is.
func Is(tb testing.TB, err, want error, format string, args ...any) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("%s: %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

// Err returns the error beside a value, for Is.
func Err[T any](_ T, err error) error { return err }

// Same compares two values with cmp.Diff.
func Same(tb testing.TB, got, want any, options ...cmp.Option) {
	tb.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		tb.Errorf("(-want +got):\n%s", diff)
	}
}

// Alike is Same for values that the format names.
func Alike(tb testing.TB, got, want any, format string, args ...any) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}
