package config_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// An outage is one line a minute for each message and cause, whatever it hits, and the lines say how many they stand
// for.
func TestAnOutageIsALineAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
		defer func() { _ = file.Close() }()
		log := config.Logging{LogFormat: "text"}.Logger(file)
		read := 0
		written := func() string {
			t.Helper()
			whole := must.Get(os.ReadFile(file.Name()))(t)
			fresh := string(whole[read:])
			read = len(whole)
			return fresh
		}
		away := errors.New("connection refused")
		const minutes, each = 5, 8400
		for range minutes {
			for i := range each {
				log.With("consumer", fmt.Sprint("c", i%12)).Warn("subscription broke",
					"error", fmt.Errorf("append to delivery-%s after %d ms: %w: %w", uuid.New(), i, io.ErrUnexpectedEOF, away))
				if i%10 == 0 {
					log.Warn("could not claim", "error", away)
				}
				time.Sleep(time.Minute / each) //nolint:forbidigo // the clock of the test
			}
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		broke, total := 0, 0
		for line := range strings.Lines(written()) {
			if strings.Contains(line, "subscription broke") {
				broke++
				n := 1
				if _, count, found := strings.Cut(line, "repeated="); found {
					must.Get(fmt.Sscan(count, &n))(t)
				}
				total += n
			}
		}
		assert.True(t, broke <= minutes+2 && total == minutes*each,
			"%d lines stand for %d warnings, want at most %d for %d", broke, total, minutes+2, minutes*each)

		log.Warn("subscription broke", "error", away) // the next outage is logged at once
		log.Warn("subscription broke", "error", errors.New("certificate expired"))
		log.Warn("without a cause")
		log.Warn("without a cause")
		log.Error("stopped", "error", away)
		log.Error("stopped", "error", away)
		assert.Equal(t, strings.Count(written(), "\n"), 6, "want 6 lines:")
		time.Sleep(2 * time.Minute)
	})
}
