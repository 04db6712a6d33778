package wire_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// While the event store is away, refused requests are one line a minute, which says how many they were. Faults of ours
// are a line each: they are looked for by the id of the request.
func TestRequestsOfAnOutageAreALineAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
		defer func() { _ = file.Close() }()
		answer := wire.AccessLog(config.Logging{LogFormat: "text"}.Logger(file), func(string, string, int, time.Duration) {})
		ask := func(failure error) {
			handler := wire.RequestID(answer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				wire.Events.WriteError(w, r, failure)
			})))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut,
				"/events/destinations/"+uuid.NewString(), nil))
		}
		const asked, faults = 500, 3
		for range asked {
			ask(fmt.Errorf("append to destination-%s: %w", uuid.New(), eventstore.ErrUnavailable))
		}
		for range faults {
			ask(errors.New("out of cheese"))
		}
		time.Sleep(3 * time.Minute) //nolint:forbidigo // the clock of the test
		synctest.Wait()
		written := must.Get(os.ReadFile(file.Name()))(t)
		text := string(written)
		if n := strings.Count(text, "status=503"); n != 2 || !strings.Contains(text, fmt.Sprintf("repeated=%d", asked-1)) {
			t.Errorf("%d lines of %d refused requests, want 2:\n%s", n, asked, text)
		}
		assert.Equal(t, strings.Count(text, "status=500"), faults, "lines faults: %s", text)
	})
}
