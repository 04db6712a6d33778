// Package must ends a test at an error or a value that it does not expect.
package must

import (
	"fmt"
	"testing"
	"time"
)

const patience = 2 * time.Minute // on a busy machine

// OK fails the test if there is an error.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Get returns a value, unless the error beside it fails the test: Get(f())(t).
func Get[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		OK(tb, err)
		return value
	}
}

// True expects that a condition holds. The format says what was found.
func True(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	if !holds {
		tb.Fatalf(format, args...)
	}
}

// Equal compares two values with ==. The format names them.
func Equal[T comparable](tb testing.TB, got, want T, format string, args ...any) {
	tb.Helper()
	if got != want {
		tb.Fatalf("%s: %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// Eventually waits for a condition that other goroutines or processes bring about.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !holds(); <-time.After(5 * time.Millisecond) {
		True(tb, time.Now().Before(deadline), "waited in vain until %s", what)
	}
}
