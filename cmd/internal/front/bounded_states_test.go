package front

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"carillon/eventstore/storetest/must"
)

// pipes is a listener whose connections are always there.
type pipes struct{ net.Listener }

func (pipes) Accept() (net.Conn, error) {
	one, other := net.Pipe()
	return one, other.Close()
}

// A connection is kept while a request of it is answered, and a second more. The first bytes of a request don't keep
// it.
func TestBounded_states(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states []http.ConnState
		want   time.Duration // until it is closed for another one
	}{
		"silent":    {nil, 0},
		"half-sent": {[]http.ConnState{http.StateNew, http.StateActive}, 0},
		"answered":  {[]http.ConnState{http.StateNew, http.StateActive, http.StateIdle}, grace},
		"half-sent after an answer": {[]http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateActive},
			grace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, began := Bound(pipes{}, 2), time.Now()
				answering, other := accept(t, b), accept(t, b)
				request := httptest.NewRequestWithContext(b.name(t.Context(), answering), http.MethodGet, "/", http.NoBody)
				b.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					for _, state := range c.states {
						b.follow(other, state)
					}
					if b.Crowded(1) || !b.Crowded(2) {
						t.Error("one of two has a request: ", b.busy)
					}
					accept(t, b)
				})).ServeHTTP(httptest.NewRecorder(), request)
				closed, kept := countedOf(other).closed, !countedOf(answering).closed
				if waited := time.Since(began); !closed || !kept || waited != c.want {
					t.Errorf("closed: %t, the one with a request kept: %t, after %s, want %s", closed, kept, waited, c.want)
				}
			})
		})
	}
}

func accept(t *testing.T, b *Bounded) net.Conn {
	t.Helper()
	conn := must.Get(b.Accept())(t)
	return conn
}
