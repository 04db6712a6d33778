package wire

import (
	"net/http"
	"time"
)

// How fast a caller has to take an answer: it may pause for takeGrace, and takes takeRate bytes a second else. Slower
// callers are cut off, so that unread answers don't stay in memory.
const (
	takeGrace = 10 * time.Second
	takeRate  = 16 << 10
)

// Pace cuts callers off who don't read what they asked for.
func Pace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&paced{ResponseWriter: w, control: http.NewResponseController(w)}, r)
	})
}

type paced struct {
	http.ResponseWriter

	control *http.ResponseController
	until   time.Time // the deadline that is set
}

// Write sets a deadline for each write. The end of an answer waits in a buffer of the server, which is written within
// the same time.
func (p *paced) Write(body []byte) (int, error) {
	until := time.Now().Add(takeGrace + time.Duration(len(body))*time.Second/takeRate)
	if until.Sub(p.until) > time.Second { // an answer is several small writes
		p.until = until
		_ = p.control.SetWriteDeadline(until) // if there is no connection there is no deadline
	}
	return p.ResponseWriter.Write(body)
}

// Unwrap lets http.ResponseController find what is beneath.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }
