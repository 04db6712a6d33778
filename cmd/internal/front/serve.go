package front

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"carillon/eventstore/panics"
)

const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 6 * time.Minute // the longest request tests an endpoint for 5 minutes; see also wire.Pace
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 10 * time.Second
	announceGrace     = 200 * time.Millisecond // in which clients learn that they need another connection
	maxHeaderBytes    = 32 << 10
	maxStreams        = 100 // of a connection, over HTTP/2: its caller has not shown a key yet
)

// Serve answers requests until the context ends, then lets those in progress finish. certificate is nil for plain HTTP.
//
// A connection between two requests can be closed just when the next one is sent, which then gets no answer. So at the
// end busy connections are announced to close with an answer, before idle ones are closed.
//
// tooLarge answers requests whose header is larger than maxHeaderBytes; it sees the lines for which there was room, and
// those that identify a caller. nil means a line of text.
func Serve(
	ctx context.Context, listener net.Listener, handler, tooLarge http.Handler, certificate *Certificate, log *slog.Logger,
) error {
	handler = whole(handler, tooLarge)
	server := &http.Server{
		Handler:           closeOnShutdown(ctx, handler),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes + maxEssential,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if bounded, is := listener.(*Bounded); is {
		server.ConnState, server.ConnContext, server.Handler = bounded.follow, bounded.name, bounded.serve(server.Handler)
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, panics.Func("server", func() {
		defer close(closed)
		<-time.After(announceGrace)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(closing); err != nil {
			_ = server.Close()
		}
	}))
	if certificate == nil {
		listener = plainListener{listener}
	} else {
		server.TLSConfig = certificate.config() // net/http looks here whether it is to speak HTTP/2
		server.Handler = httpsOnly(server.Handler)
		listener = newSecureListener(listener, server.TLSConfig, log)
	}
	err := server.Serve(listener)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// closeOnShutdown closes the connection of each request that comes after the context has ended, once it is answered.
func closeOnShutdown(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// httpsOnly makes browsers use HTTPS alone for this name, for a year.
func httpsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		next.ServeHTTP(w, r)
	})
}

// cutHeader marks a request of whose header something was left out. Callers can't know its value.
const cutHeader = "X-Carillon-Cut"

var cutProof = rand.Text()

// whole hands on the requests that are whole.
func whole(next, tooLarge http.Handler) http.Handler {
	if tooLarge == nil {
		tooLarge = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the header of the request is too large", http.StatusRequestHeaderFieldsTooLarge)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(r.Header[cutHeader], cutProof) {
			next.ServeHTTP(w, r)
			return
		}
		delete(r.Header, cutHeader)
		w.Header().Set("Connection", "close")
		tooLarge.ServeHTTP(w, r)
	})
}
