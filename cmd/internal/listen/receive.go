package listen

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"carillon/eventstore/panics"
)

const maxBody = 4 << 20 // bytes

// webhook is one request as it came.
type webhook struct {
	at     time.Time
	header http.Header
	names  []string // of headers, as the server sent them
	body   []byte
}

// answer is the response to one.
type answer struct {
	status int
	header http.Header
	body   []byte
	by     string // the reason for the status, if it is not the signature
}

func (l *listener) serveWebhook(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNoContent) // the reachability probe
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	request := webhook{
		at:     time.Now(),
		header: r.Header,
		names:  inLowerCase,
		body:   body,
	}
	given := l.handle(r.Context(), request) //nolint:contextcheck // an answer ends with its request
	l.retryLater(ctx, request, given)
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
	if l.Forward != "" && (given.status == http.StatusUnauthorized || given.status == http.StatusForbidden) {
		l.note("%s answered %d. %s", l.Forward, given.status, l.checked(invalid))
	}
	return given
}

// checked describes what is known of a signature that the program refuses.
func (l *listener) checked(invalid error) string {
	const last = 4 // characters, by which the server shows a secret, too
	secret := "whsec_…" + l.Secret[len(l.Secret)-last:]
	if invalid != nil {
		return fmt.Sprintf("The signature is not by %s either: %v.", secret, invalid)
	}
	return fmt.Sprintf("The signature is by %s, the time is recent, and the body is unchanged: does your program verify "+
		"by this secret (carillon listen --print-secret), and over the raw body?", secret)
}

// Tries of a retry: the attempt is on record shortly after its answer.
const (
	maxRetries = 5
	retryPause = 500 * time.Millisecond
)

// retryLater has a webhook that was refused sent again, if that is asked for.
func (l *listener) retryLater(ctx context.Context, w webhook, given answer) {
	if l.Retry > 0 && (given.status < http.StatusOK || given.status >= http.StatusMultipleChoices) {
		go panics.Func("listen retry", func() { l.retry(ctx, w.header.Get("webhook-id")) })()
	}
}

// retry makes a refused webhook due now, after a while.
func (l *listener) retry(ctx context.Context, id string) {
	pause := l.Retry
	for try := 1; ; try++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		err := l.API.Call(ctx, http.MethodPost, "/events/deliveries/"+id+"/retry", nil, nil)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case try == maxRetries || !hasStatus(err, http.StatusConflict) && !isNotFound(err):
			l.note("%s is not sent again now: %v", id, err)
			return
		}
		pause = retryPause
	}
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
