package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// webServer answers HTTP on the node's port, for probes and monitoring. rpc takes the gRPC calls of clients whose TLS
// accepts either.
func (n *Node) webServer(rpc *grpc.Server) *http.Server {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /health/live", n.live)
	pages.HandleFunc("GET /info", n.info)
	pages.HandleFunc("GET /metrics", n.forUser(n.metrics.page()))
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				n.serveRPC(w, r, rpc)
				return
			}
			pages.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: sortWithin,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
}

// serveRPC answers a gRPC call of this server. grpc reads the body of such a call ahead of the handler, however much
// that is: so credentials are looked at here.
func (n *Node) serveRPC(w http.ResponseWriter, r *http.Request, rpc *grpc.Server) {
	ctx := metadata.NewIncomingContext(r.Context(), metadata.MD{"authorization": r.Header.Values("Authorization")})
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: remote(r.RemoteAddr)})
	if err := n.authenticate(ctx, r.URL.Path); err != nil {
		refused := describe("", err)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", strconv.Itoa(int(refused.code)))
		w.Header().Set("Grpc-Message", refused.message)
		return
	}
	if public[r.URL.Path] {
		r.Body = http.MaxBytesReader(w, r.Body, messageHeader+maxPublicBytes)
	}
	rpc.ServeHTTP(w, r)
}

// remote is the address of a caller.
type remote string

// Network implements net.Addr.
func (remote) Network() string { return "tcp" }

// String implements net.Addr.
func (r remote) String() string { return string(r) }

func writeJSON(w http.ResponseWriter, answer any) {
	text, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		http.Error(w, "the answer can't be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(text, '\n'))
}

// live answers that the node works. Some probes ask for another code for that.
func (n *Node) live(w http.ResponseWriter, r *http.Request) {
	code := http.StatusNoContent
	if wanted, err := strconv.Atoi(r.URL.Query().Get("liveCode")); err == nil && wanted >= 200 && wanted < 600 {
		code = wanted
	}
	if n.Err() != nil || n.closing() {
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
}

func (n *Node) info(w http.ResponseWriter, _ *http.Request) {
	authentication := "insecure"
	if n.config.User != "" {
		authentication = "basic"
	}
	writeJSON(w, map[string]any{
		"esVersion":      protocolVersion,
		"state":          "leader",
		"readOnly":       n.config.ReadOnly,
		"features":       map[string]bool{"projections": false, "userManagement": false, "atomPub": false},
		"authentication": map[string]any{"type": authentication, "properties": map[string]string{}},
	})
}

// forUser restricts a page to the node's user, if it has one.
func (n *Node) forUser(page http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if n.config.User == "" {
			page.ServeHTTP(w, r)
			return
		}
		headers := r.Header.Values("Authorization")
		var err error = errAccessDenied
		if len(headers) > 0 {
			err = n.admit(r.Context(), r.RemoteAddr, headers)
		}
		switch {
		case err == nil:
			page.ServeHTTP(w, r)
		case errors.Is(err, errGuesses):
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="event store"`)
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	}
}

// stopWeb lets requests finish that are in progress, but not for ever.
func stopWeb(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

func (n *Node) closing() bool {
	select {
	case <-n.store.Closing():
		return true
	default:
		return false
	}
}
