package listen

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"
)

const maxBody = 4 << 20 // bytes

// webhook is one request as it came.
type webhook struct {
	at     time.Time
	header http.Header
	body   []byte
}

// answer is the response to one.
type answer struct {
	status int
	header http.Header
	body   []byte
	by     string // the reason for the status, if it is not the signature
}

func (l *listener) serveWebhook(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNoContent) // the reachability probe
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	given := l.handle(r.Context(), webhook{at: time.Now(), header: r.Header, body: body})
	for name, values := range given.header {
		w.Header()[name] = values
	}
	w.WriteHeader(given.status)
	_, _ = w.Write(given.body) // a server that has gone away sends it again
}

// handle verifies, answers and shows one webhook.
func (l *listener) handle(ctx context.Context, w webhook) answer {
	invalid := l.verifier.Verify(w.body, w.header)
	given := l.answer(ctx, w, invalid)
	l.show(w, invalid, given)
	return given
}

func (l *listener) answer(ctx context.Context, w webhook, invalid error) answer {
	if l.Delay > 0 {
		select {
		case <-time.After(l.Delay):
		case <-ctx.Done():
		}
	}
	switch {
	case l.refuses(w.header.Get("webhook-id")):
		return answer{status: cmp.Or(l.Status, http.StatusInternalServerError), by: "--fail"}
	case l.Failures == 0 && l.Status != 0:
		return answer{status: l.Status, by: "--status"}
	case l.Forward != "":
		return l.forward(ctx, w)
	case invalid != nil:
		return answer{status: http.StatusUnauthorized}
	}
	return answer{status: http.StatusNoContent}
}

// refuses counts the attempts of a webhook and reports whether this one is among those to be refused.
func (l *listener) refuses(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused[id] >= l.Failures {
		return false
	}
	l.refused[id]++
	return true
}
