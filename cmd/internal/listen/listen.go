// Package listen receives webhooks for a developer: it makes a destination and a subscription of its own, verifies and
// shows each webhook, passes it on if asked to, and removes both afterwards.
package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/dev"
	"carillon/eventstore/panics"
)

// cleanupTimeout bounds how long the end may take.
const cleanupTimeout = 10 * time.Second

// Options says what to listen for and what to do with it.
type Options struct {
	API       *apiclient.Client
	Authority *dev.Authority // that the server trusts; nil means to take webhooks from a stream
	Secret    string         // whsec_…
	Types     []string
	Feeds     []string    // ids; none means all
	Forward   string      // URL; Optional.
	Trust     *tls.Config // of Forward. Optional.
	Failures  int         // attempts of each webhook that are refused at first
	Status    int         // of refusals, and of all answers if Failures is 0; 0 means 500 for refusals
	Delay     time.Duration
	Retry     time.Duration // after which a webhook that was refused is requested again. Optional.
	JSON      bool
	Example   string         // the command line that publishes an event. Optional
	LockDir   string         // of listeners on this machine. Optional: the default is the user's own
	Out       io.Writer      // webhooks
	Zone      *time.Location // of the times for people
	Notes     io.Writer      // everything else
}

// listener is one run.
type listener struct {
	Options
	verifier *standardwebhooks.Webhook
	client   *http.Client // that forwards
	end      context.CancelCauseFunc

	out, notes sync.Mutex // a reader of one may be slow

	mu      sync.Mutex
	refused map[string]int // attempts, by webhook-id
}

// Run listens until the context ends.
func Run(ctx context.Context, options Options) (err error) {
	verifier, err := standardwebhooks.NewWebhook(options.Secret)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	l := &listener{
		Options:  options,
		verifier: verifier,
		client:   forwarder(options.Trust),
		refused:  map[string]int{},
	}
	asked := ctx // by Ctrl-C
	ctx, l.end = context.WithCancelCause(ctx)
	defer l.end(nil)
	place, err := l.takePlace(ctx)
	if err != nil {
		return err
	}
	defer place.release()
	url, stop := streamURL(), func() {}
	if l.Authority != nil {
		if url, stop, err = l.Authority.Receive(ctx, func(w http.ResponseWriter, r *http.Request) {
			l.serveWebhook(ctx, w, r)
		}); err != nil {
			return err
		}
		url += "/carillon-listen"
	}
	defer stop()
	defer func() {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if failure := l.remove(ended, place.externalID); failure != nil && err == nil {
			err = fmt.Errorf("remove the destination %s; the next carillon listen does: %w", place.externalID, failure)
		}
	}()
	if err := l.subscribe(ctx, place.externalID, url); err != nil {
		return err
	}
	if l.Authority != nil {
		l.welcome(place.externalID)
		go panics.Func("listen watch", func() { l.watch(ctx, place.externalID) })()
	} else if err := l.follow(ctx, place.externalID); err != nil {
		return err
	}
	<-ctx.Done()
	l.note("\nRemoving the destination %s.", place.externalID)
	if asked.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

func (l *listener) note(format string, args ...any) {
	l.print(&l.notes, l.Notes, fmt.Sprintf(format, args...))
}

// print writes a line. A reader that is gone ends the listener.
func (l *listener) print(one *sync.Mutex, to io.Writer, line string) {
	one.Lock()
	defer one.Unlock()
	_, err := fmt.Fprintln(to, line)
	switch {
	case errors.Is(err, syscall.EPIPE):
		l.end(context.Canceled) // as Ctrl-C does
	case err != nil:
		l.end(fmt.Errorf("print: %w", err))
	}
}
