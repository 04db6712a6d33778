package wire

import (
	"iter"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"

	"carillon/eventstore/instant"
)

// Reply is a successful answer. Data that is an Appender is written unchanged, so that a read model's stored JSON need
// not be parsed.
type Reply struct {
	Status int
	Data   any // nil means the envelope has no data

	list iter.Seq2[any, error] // instead of Data: see Streamed
}

// Appender is data that appends its JSON, one value, to the bytes before it.
type Appender interface{ AppendJSON(to []byte) []byte }

// OK is the answer to a read or a change.
func OK(data any) Reply { return Reply{Status: http.StatusOK, Data: data} }

// Created is the answer to a creation.
func Created(data any) Reply { return Reply{Status: http.StatusCreated, Data: data} }

// Accepted is the answer to work that has begun.
func Accepted(data any) Reply { return Reply{Status: http.StatusAccepted, Data: data} }

// Done is the answer that has nothing to say but success.
func Done() Reply { return Reply{Status: http.StatusOK} }

// Page is one page of a list.
type Page[T any] struct {
	Items      []T        `json:"items"`
	Total      int        `json:"total"`
	Pagination Pagination `json:"pagination"`
}

// Pagination is the part of a list on a page.
type Pagination struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"hasMore"`
}

// PageOf makes a page of items that were selected with a limit and an offset.
func PageOf[T any](items []T, total, limit, offset int) Page[T] {
	if items == nil {
		items = []T{}
	}
	return Page[T]{
		Items:      items,
		Total:      total,
		Pagination: Pagination{Limit: limit, Offset: offset, HasMore: offset+len(items) < total},
	}
}

// Handler answers a request with a reply or an error; it writes nothing itself.
type Handler func(r *http.Request) (Reply, error)

// Handle makes an http.Handler of one, with the error codes of a surface.
func (s Surface) Handle(h Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reply, err := h(r)
		if err != nil {
			s.WriteError(w, r, err)
			return
		}
		if reply.list != nil {
			s.writeStream(w, r, reply)
			return
		}
		room, _ := bodies.Get().(*[]byte)
		body, err := appendEnvelope((*room)[:0], reply.Data)
		if err != nil {
			s.WriteError(w, r, err)
			return
		}
		writeBody(w, reply.Status, body)
		if cap(body) <= mostKept {
			*room = body
		}
		bodies.Put(room)
	}
}

// bodies holds buffers for answers. Lists are large, and allocating a buffer for each would be most of an answer's
// cost.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

const mostKept = 1 << 20 // bytes of an answer whose room is used again

func appendEnvelope(to []byte, data any) ([]byte, error) {
	if data == nil {
		return append(to, `{"success":true}`...), nil
	}
	to = append(to, `{"success":true,"data":`...)
	if own, ok := data.(Appender); ok {
		return append(own.AppendJSON(to), '}'), nil
	}
	raw, err := Marshal(data)
	if err != nil {
		return nil, err
	}
	return append(append(to, raw...), '}'), nil
}

// Marshal renders data as answers have it.
func Marshal(data any) ([]byte, error) {
	return json.Marshal(data, json.Deterministic(true),
		instant.JSON) //nolint:wrapcheck // what is to be rendered says what it is
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil { // only our own error envelope comes here, and it is made of strings
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	writeBody(w, status, data)
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	writeHead(w, status)
	_, _ = w.Write(body) // a caller that has gone away has no use for an error
}

func writeHead(w http.ResponseWriter, status int) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
}
