// Package suite keeps fixtures for all tests of a test binary, so that a package starts what it tests once.
package suite

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Main runs the tests of a binary, ends its fixtures, and returns its exit code. TestMain calls it.
func Main(m *testing.M) int {
	code := m.Run()
	if !all.end() && code == 0 {
		code = 1
	}
	return code
}

// Fixture returns a function that starts a fixture for the first test that asks for it, and returns it to every
// test. Main ends it. An organization, a source and a name belong to one test each; a test that takes a part away,
// moves a clock, or looks at the whole of a list starts its own fixture.
func Fixture[T any](start func(testing.TB) T) func(testing.TB) T {
	return fixtureOf(all, start)
}

func fixtureOf[T any](o *owner, start func(testing.TB) T) func(testing.TB) T {
	var once sync.Once
	var fixture T
	started := false
	return func(tb testing.TB) T {
		tb.Helper()
		once.Do(func() {
			done := make(chan struct{})
			go func() { // Fatal ends this goroutine, not the test's
				defer close(done)
				fixture = start(o)
				started = true
			}()
			<-done
		})
		if !started {
			tb.Fatal("the fixture of the package did not start: see above")
		}
		return fixture
	}
}

// all owns the fixtures of this binary.
var all = &owner{out: os.Stderr}

// owner is the testing.TB of fixtures: their parts end with the binary, and what fails meanwhile fails the binary.
type owner struct {
	testing.TB // nil: for its private method alone

	out io.Writer

	mu       sync.Mutex
	cleanups []func()
	failed   bool
}

// end runs the cleanups, the last one first, and reports whether nothing failed.
func (o *owner) end() bool {
	for {
		o.mu.Lock()
		n := len(o.cleanups)
		if n == 0 {
			defer o.mu.Unlock()
			return !o.failed
		}
		last := o.cleanups[n-1]
		o.cleanups = slices.Delete(o.cleanups, n-1, n)
		o.mu.Unlock()
		last()
	}
}

func (o *owner) Cleanup(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups = append(o.cleanups, f)
}

func (o *owner) Helper()                  {}
func (o *owner) Name() string             { return "fixture" }
func (o *owner) Context() context.Context { return context.Background() }

func (o *owner) Failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

func (o *owner) fail(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = true
	_, _ = fmt.Fprintf(o.out, "fixture: %s\n", text)
}

func (o *owner) Error(args ...any)                 { o.fail(fmt.Sprint(args...)) }
func (o *owner) Errorf(format string, args ...any) { o.fail(fmt.Sprintf(format, args...)) }

func (o *owner) Fatal(args ...any) {
	o.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (o *owner) Fatalf(format string, args ...any) {
	o.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (o *owner) Log(args ...any)                 { _, _ = fmt.Fprintln(o.out, args...) }
func (o *owner) Logf(format string, args ...any) { _, _ = fmt.Fprintf(o.out, format+"\n", args...) }

// Output discards: a fixture logs what concerns no single test.
func (o *owner) Output() io.Writer { return io.Discard }

// TempDir returns a new directory, which is removed with the fixtures.
func (o *owner) TempDir() string {
	dir, err := os.MkdirTemp("", "fixture")
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			o.Error(err)
		}
	})
	return dir
}
