package maintenance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"carillon/eventstore/node"
)

const (
	reportInterval = 100 * time.Millisecond
	headerTimeout  = 5 * time.Second
	maxRequest     = 64 << 10
)

// Server serves the tasks of a node that this process runs.
type Server struct {
	node   Node
	about  about
	log    *slog.Logger
	http   http.Server
	remove func()
	cancel context.CancelFunc
	served chan struct{}
	task   sync.Mutex // held by the one task in progress
}

// Serve makes a node maintainable through its directory, until Close. protocol is the unix socket on which it speaks
// the EventStoreDB protocol without asking for credentials, or "".
func Serve(n Node, dir, protocol string, log *slog.Logger) (*Server, error) {
	ctx, cancel := context.WithCancel(context.Background())
	listener, remove, err := listen(ctx, dir)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("maintenance socket of the event store: %w", err)
	}
	s := &Server{
		node:   n,
		about:  about{Socket: protocol},
		log:    log,
		remove: remove,
		cancel: cancel,
		served: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.describe)
	mux.HandleFunc("POST /{task}", s.run)
	s.http = http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the event store can't be maintained any more", "error", err)
		}
	}()
	return s, nil
}

// Close ends the task that is in progress and waits for it. Call it before the node is closed.
func (s *Server) Close() {
	s.cancel()
	_ = s.http.Close() // its connections end with it
	<-s.served
	s.task.Lock() // a task still reads the node until its context has ended it; no other begins
	s.remove()
}

func (s *Server) describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.about) //nolint:errchkjson // the client has gone if this fails
}

func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	task := r.PathValue("task")
	lines := &writer{encoder: json.NewEncoder(w), flusher: http.NewResponseController(w)}
	if !s.task.TryLock() {
		lines.write(line{Error: ErrBusy.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	started := time.Now()
	s.log.Info("event store maintenance begins", "task", task)
	last, err := func() (line, error) {
		defer s.task.Unlock() // before the client hears that it is done, and asks for the next
		return s.do(r, task, lines.progress)
	}()
	switch {
	case err != nil:
		s.log.Warn("event store maintenance failed", "task", task, "error", err)
		last = line{Error: err.Error()}
	default:
		s.log.Info("event store maintenance done", "task", task, "took", time.Since(started).Round(time.Millisecond))
	}
	last.Finished = true
	lines.write(last)
}

func (s *Server) do(r *http.Request, task string, progress node.Progress) (last line, err error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	switch task {
	case taskBackup:
		var request struct {
			Dir string `json:"dir"`
		}
		if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxRequest)).Decode(&request); err != nil {
			return last, fmt.Errorf("request: %w", err)
		}
		if !filepath.IsAbs(request.Dir) {
			return last, fmt.Errorf("%q is no absolute path", request.Dir)
		}
		return last, s.node.Backup(ctx, request.Dir)
	case taskVerify:
		found, err := s.node.Verify(ctx, progress)
		return line{Report: &found}, err
	case taskScavenge:
		removed, err := s.node.Scavenge(ctx, progress)
		return line{Scavenged: &removed}, err
	}
	return last, fmt.Errorf("%q is no task", task)
}

// writer writes the lines of an answer. A client that has gone ends the request's context, so failures are not looked
// at.
type writer struct {
	encoder *json.Encoder
	flusher *http.ResponseController
	last    time.Time
}

func (w *writer) progress(done, total uint64) {
	if now := time.Now(); now.Sub(w.last) >= reportInterval {
		w.last = now
		w.write(line{Done: done, Total: total})
	}
}

func (w *writer) write(l line) {
	_ = w.encoder.Encode(l) //nolint:errchkjson // as said above
	_ = w.flusher.Flush()
}
