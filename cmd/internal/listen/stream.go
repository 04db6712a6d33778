package listen

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/httpapi"
)

const (
	reconnectPause = time.Second
	maxPassedBack  = 64 << 10 // bytes of an answer; the server keeps less
	maxHeadersBack = 32 << 10 // and of its headers
)

// streamURL returns a new address of a destination whose webhooks are taken from a stream. It can't be guessed.
func streamURL() string { return "https://listen.invalid/stream/" + rand.Text() + rand.Text() }

// follow takes webhooks from the stream of a destination until the context ends, and connects again if it breaks.
func (l *listener) follow(ctx context.Context, externalID string) error {
	path := destinations + "/" + externalID + "/listen"
	welcome := sync.OnceFunc(func() { l.welcome(externalID) })
	for {
		err := l.API.Stream(ctx, path, welcome, func(e apiclient.Event) {
			if e.Name == "destination" {
				l.state(ctx, externalID, e)
				return
			}
			l.take(ctx, path, e)
		})
		failure, answered := errors.AsType[*apiclient.Error](err)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was stopped
		case answered && failure.Status < http.StatusInternalServerError && failure.Status != http.StatusTooManyRequests:
			return err
		case err != nil:
			l.note("The stream broke, connecting again: %v", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnectPause):
		}
	}
}

// state handles a state of the destination.
func (l *listener) state(ctx context.Context, externalID string, e apiclient.Event) {
	var now httpapi.ListenState
	if err := json.Unmarshal([]byte(e.Data), &now); err != nil {
		l.note("The stream has an event that can't be read: %v", err)
	}
	l.observe(ctx, externalID, now)
}

// take handles a webhook of the stream and sends the answer back.
func (l *listener) take(ctx context.Context, path string, e apiclient.Event) {
	var request httpapi.ListenRequest
	if err := json.Unmarshal([]byte(e.Data), &request); err != nil {
		l.note("The stream has an event that can't be read: %v", err)
		return
	}
	header := http.Header{}
	for name, value := range request.Headers {
		header.Set(name, value)
	}
	taken := webhook{
		at:     time.Now(),
		header: header,
		names:  append(inLowerCase[:len(inLowerCase):len(inLowerCase)], request.HeaderNames...),
		body:   []byte(request.Body),
	}
	given := l.handle(ctx, taken)
	err := l.API.Call(ctx, http.MethodPost, path+"/"+e.ID, given.passedBack(), nil)
	if _, refused := errors.AsType[*apiclient.Error](err); refused && !isNotFound(err) {
		// The attempt would wait for its answer until it times out.
		l.note("The answer of %d can't be passed back: %v", given.status, err)
		err = l.API.Call(ctx, http.MethodPost, path+"/"+e.ID, unanswered(err).passedBack(), nil)
	}
	if err != nil && ctx.Err() == nil {
		l.note("The answer came too late or was lost: %v", err)
	}
	l.retryLater(ctx, taken, given)
}

// passedBack returns an answer as the API takes it. Members that servers did not always know are used where others
// don't do: for names that come twice, and for bytes that are no text.
func (a answer) passedBack() map[string]any {
	headers, lines, size := map[string]string{}, []string{}, 0
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		for _, value := range a.header[name] {
			if !utf8.ValidString(value) {
				value = latin1(value)
			}
			if size += len(name) + len(value); size > maxHeadersBack {
				continue
			}
			if len(a.header[name]) == 1 {
				headers[name] = value
				continue
			}
			lines = append(lines, name+": "+value)
		}
	}
	back := map[string]any{"status": a.status, "headers": headers}
	if len(lines) > 0 {
		back["headerLines"] = lines
	}
	if body := a.body[:min(len(a.body), maxPassedBack)]; utf8.Valid(body) {
		back["body"] = string(body)
	} else {
		back["bodyBase64"] = body
	}
	return back
}

// latin1 reads bytes as ISO 8859-1, as headers of old programs are.
func latin1(value string) string {
	text := make([]rune, len(value))
	for i := range len(value) {
		text[i] = rune(value[i])
	}
	return string(text)
}
