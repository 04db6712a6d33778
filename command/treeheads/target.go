package treeheads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"carillon/command/egress"
	"carillon/eventstore/panics"
	"carillon/eventstore/seal"
)

// Target is a place elsewhere that keeps heads: a file, or an address that takes them by POST.
type Target struct {
	To        string            // a path, or an https:// address
	Transport http.RoundTripper // which refuses private addresses

	writing atomic.Bool
	partial atomic.Bool // the file may end within a line
}

const sendTimeout = 30 * time.Second

var (
	errSlow    = fmt.Errorf("the file could not be written within %s", sendTimeout)
	errWriting = errors.New("the file is still being written to since an earlier try")
)

// Send adds a head, one JSON object a line. Errors don't name the address, which may hold a secret.
func (t *Target) Send(ctx context.Context, head *seal.Head) error {
	line, err := head.Line()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if strings.HasPrefix(t.To, "https://") {
		return t.post(ctx, line)
	}
	if !t.writing.CompareAndSwap(false, true) {
		return errWriting
	}
	written := make(chan error, 1)
	go panics.Func("tree heads", func() { // a mount that does not answer can't be interrupted
		err := panics.Catch("tree heads", func() error { return t.write(line) })
		t.writing.Store(false) // before the answer: the next head may follow at once
		written <- err
	})()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return errSlow
	}
}

func (t *Target) write(line []byte) error {
	file, err := os.OpenFile(t.To, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // heads are public
	if err != nil {
		return err
	}
	if t.partial.Load() {
		line = append([]byte{'\n'}, line...)
	}
	_, err = file.Write(line)
	t.partial.Store(err != nil)
	return errors.Join(err, file.Sync(), file.Close())
}

func (t *Target) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.To, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address is malformed")
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{
		Transport:     t.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return egress.HideAddresses(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("it was answered with status %d", answer.StatusCode)
	}
	return nil
}
