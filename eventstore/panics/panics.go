// Package panics keeps a panic from ending the process: the part that panicked fails instead, and what it does on
// failure follows. The panic is logged with its stack and counted here, in one place.
//
// A panic of the event store in this process is none of these: see [Fatal].
package panics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// The pause between a panic of a part and its next start doubles up to maxPause, see [Keep].
const (
	minPause = time.Second
	maxPause = time.Minute
)

// Error is a panic of a part.
type Error struct {
	Part  string
	Value any // it may hold anything, secrets included: not to be shown
}

// Error returns the part and the cause. Of values other than the runtime's own errors it names only the type.
func (e *Error) Error() string {
	if fault, is := e.Value.(runtime.Error); is {
		return "panic in " + e.Part + ": " + fault.Error()
	}
	return fmt.Sprintf("panic in %s: a %T", e.Part, e.Value)
}

// Catch calls f, and returns its panic as an *Error. http.ErrAbortHandler, by which handlers drop their connection, is
// passed on.
func Catch(part string, f func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if cause, is := value.(error); is && errors.Is(cause, http.ErrAbortHandler) {
			panic(value)
		}
		if caught, is := value.(*Error); is { // in a goroutine that this one has waited for
			err = caught
			return
		}
		err = &Error{Part: part, Value: value}
		count(part)
		current().Error("panic, the part fails and the process goes on", "part", part, "error", err,
			"stack", string(debug.Stack()))
	}()
	return f()
}

// Task returns f with its panics caught, for groups of goroutines that report an error.
func Task(part string, f func() error) func() error {
	return func() error { return Catch(part, f) }
}

// Func returns f with its panics caught, for goroutines and timers that report nothing.
func Func(part string, f func()) func() {
	return func() { _ = Catch(part, func() error { f(); return nil }) }
}

// Keep calls f, and again after each panic, a pause later, until it returns or the context ends.
func Keep(ctx context.Context, part string, f func(context.Context) error) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		started := time.Now()
		err := Catch(part, func() error { return f(ctx) })
		if _, panicked := errors.AsType[*Error](err); !panicked {
			return err
		}
		if time.Since(started) > maxPause {
			pause = minPause
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Loop is Keep for a part that returns no error, as a function for goroutines.
func Loop(ctx context.Context, part string, f func(context.Context)) func() {
	return func() {
		_ = Keep(ctx, part, func(ctx context.Context) error { f(ctx); return nil })
	}
}

// Fatal makes a panic of the function that defers it end the process, whatever would catch it: what panicked works on
// data that a half-done step leaves wrong, and a new start reads what is on disk.
func Fatal() {
	value := recover() //nolint:revive // this is the deferred function
	if value == nil {
		return
	}
	stack := debug.Stack()
	go func() { panic(fmt.Sprintf("%s\n%s", &Error{Part: "the event store", Value: value}, stack)) }()
	select {} // nothing that this goroutine holds is let go
}

// logger is the process's: a part may have none, and its panic is to be seen all the same.
var logger atomic.Pointer[slog.Logger]

// LogTo has the panics of this process logged to a logger, in place of standard error.
func LogTo(log *slog.Logger) { logger.Store(log) }

func current() *slog.Logger {
	if log := logger.Load(); log != nil {
		return log
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

var (
	mu     sync.Mutex
	counts = map[string]uint64{}
)

func count(part string) {
	mu.Lock()
	defer mu.Unlock()
	counts[part]++
}

// Counts returns the number of panics of each part since the process began.
func Counts() map[string]uint64 {
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(counts)
}
