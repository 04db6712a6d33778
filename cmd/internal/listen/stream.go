package listen

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/apiclient"
)

const (
	reconnectPause = time.Second
	maxPassedBack  = 64 << 10 // bytes of an answer; the server keeps less
)

// streamURL returns a new address of a destination whose webhooks are taken from a stream. It can't be guessed.
func streamURL() string { return "https://listen.invalid/stream/" + rand.Text() + rand.Text() }

// follow takes webhooks from the stream of a destination until the context ends, and connects again if it breaks.
func (l *listener) follow(ctx context.Context, externalID string) error {
	path := destinations + "/" + externalID + "/listen"
	welcome := sync.OnceFunc(func() { l.welcome(externalID) })
	for {
		err := l.API.Stream(ctx, path, welcome, func(e apiclient.Event) { l.take(ctx, path, e) })
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

// take handles a webhook of the stream and sends the answer back.
func (l *listener) take(ctx context.Context, path string, e apiclient.Event) {
	var request struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	if err := json.Unmarshal([]byte(e.Data), &request); err != nil {
		l.note("The stream has an event that can't be read: %v", err)
		return
	}
	header := http.Header{}
	for name, value := range request.Headers {
		header.Set(name, value)
	}
	given := l.handle(ctx, webhook{at: time.Now(), header: header, body: []byte(request.Body)})
	headers := map[string]string{}
	for name := range given.header {
		headers[name] = given.header.Get(name)
	}
	body := given.body[:min(len(given.body), maxPassedBack)]
	err := l.API.Call(ctx, http.MethodPost, path+"/"+e.ID, map[string]any{
		"status":  given.status,
		"headers": headers,
		"body":    strings.ToValidUTF8(string(body), "\uFFFD"),
	}, nil)
	if err != nil && ctx.Err() == nil {
		l.note("The answer came too late or was lost: %v", err)
	}
}
