package wire

import (
	"bytes"
	"iter"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/eventstore/instant"
)

// streamedAtOnce is how much of a streamed list is in memory before it is written, in bytes.
const streamedAtOnce = 16 << 10

// Streamed is the answer with a list that may be long: it is never whole in memory, however slowly the caller reads. If
// the list breaks off after its first part was written, the connection is dropped, so that the caller does not take the
// part for the whole.
func Streamed[T any](list iter.Seq2[T, error], shown func(T) any) Reply {
	return Reply{Status: http.StatusOK, list: func(yield func(any, error) bool) {
		for one, err := range list {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(shown(one), nil) {
				return
			}
		}
	}}
}

// writeStream writes a streamed list in its envelope. A list that is short is one write.
func (s Surface) writeStream(w http.ResponseWriter, r *http.Request, reply Reply) {
	part := bytes.NewBufferString(`{"success":true,"data":[`)
	begun, first := false, true
	for one, err := range reply.list {
		if err == nil {
			if !first {
				part.WriteByte(',')
			}
			first = false
			err = json.MarshalWrite(part, one, json.Deterministic(true), instant.JSON)
		}
		switch {
		case err != nil && begun:
			NoteFailure(r.Context(), FailureOf(err))
			panic(http.ErrAbortHandler)
		case err != nil:
			s.WriteError(w, r, err)
			return
		}
		if part.Len() < streamedAtOnce {
			continue
		}
		if !begun {
			begun = true
			writeHead(w, reply.Status)
		}
		if _, err := w.Write(part.Bytes()); err != nil {
			return // the caller has gone away, or took too long
		}
		part.Reset()
	}
	part.WriteString("]}")
	if !begun {
		writeHead(w, reply.Status)
	}
	_, _ = w.Write(part.Bytes()) // a caller that has gone away has no use for an error
}

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
