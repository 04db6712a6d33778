package projections

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// A connection that Postgres refuses is asked for again soon; anything else is tried less and less often.
func TestPauseBeforeConnectingAgain(t *testing.T) {
	t.Parallel()
	if got := longest(fmt.Errorf("connect: %w", &pgconn.ConnectError{})); got != connectPause {
		t.Errorf("%s after a refused connection", got)
	}
	if got := longest(errors.New("anything")); got != maxPause {
		t.Errorf("%s after another error", got)
	}
}
