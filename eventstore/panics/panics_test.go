package panics_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const fatal = "CARILLON_TEST_FATAL"

// logged is what the panics of all tests log.
var logged lockedBuffer

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestMain makes this binary a process whose event store panics inside a part that is caught.
func TestMain(m *testing.M) {
	if os.Getenv(fatal) == "" {
		panics.LogTo(slog.New(slog.NewTextHandler(&logged, nil)))
		os.Exit(m.Run())
	}
	_ = panics.Catch("reader", func() error {
		defer panics.Fatal()
		panic("s3cret")
	})
}

// A panic is an error that names the part, is logged with its stack and without its value, and is counted.
func TestCatch(t *testing.T) {
	t.Parallel()
	var none []int
	for what, f := range map[string]func() error{
		"index out of range": func() error { return errors.New(string(rune(none[len(logged.String())]))) },
		"a string":           func() error { panic("s3cret") },
		"error":              func() error { panic(errors.New("s3cret")) },
	} {
		err := panics.Catch(what, f)
		caught, is := errors.AsType[*panics.Error](err)
		if !is || caught.Part != what || !strings.Contains(err.Error(), what) || panics.Counts()[what] != 1 {
			t.Errorf("%s: %v, counted %d", what, err, panics.Counts()[what])
		}
		assert.Is(t, panics.Catch("waits for it", func() error { panic(err) }), err, "%s, passed on", what)
		text := logged.String()
		assert.True(t, strings.Contains(text, "TestCatch") && strings.Contains(text, what) &&
			!strings.Contains(text, "s3cret"), "%s: logged %s", what, text)
	}
	defer func() {
		err, is := recover().(error)
		assert.True(t, is && errors.Is(err, http.ErrAbortHandler), "a dropped connection: %v", err)
	}()
	_ = panics.Catch("handler", func() error { panic(http.ErrAbortHandler) })
}

// A part that panics is started again after a pause, which grows, until it returns or is to end.
func TestKeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed, starts, begun := errors.New("failed"), 0, time.Now()
		err := panics.Keep(t.Context(), "part", func(context.Context) error {
			if starts++; starts < 3 {
				panic("planted")
			}
			return failed
		})
		if took := time.Since(begun); !errors.Is(err, failed) || starts != 3 || took != 3*time.Second {
			t.Errorf("%v after %d starts in %s", err, starts, took)
		}
		ending, end := context.WithCancel(t.Context())
		assert.True(t, panics.Keep(ending, "part", func(context.Context) error { end(); panic("planted") }) != nil,
			"it goes on")
	})
}

func TestFatal_endsTheProcess(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), fatal+"=1")
	out, err := child.CombinedOutput()
	_, ended := errors.AsType[*exec.ExitError](err)
	must.True(t, ended, "ended with %v", err)
	text := string(out)
	assert.True(t, strings.Contains(text, "TestMain") && !strings.Contains(text, "s3cret"), "printed %s", text)
}
