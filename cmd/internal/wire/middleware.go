package wire

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"carillon/command/sampling"
	"carillon/eventstore/panics"
)

// SurfaceOf returns the surface of a request.
type SurfaceOf func(*http.Request) Surface

// record collects what the access log says of a request.
type record struct {
	id      uuid.UUID
	header  http.Header // of the answer
	attrs   []slog.Attr
	failure *Failure
	anybody bool // was answered without looking whose it is
}

type recordKey struct{}

func recordOf(ctx context.Context) *record {
	rec, _ := ctx.Value(recordKey{}).(*record)
	return rec
}

// Note adds attributes to the line that the access log writes for the request. They must not be secrets.
func Note(ctx context.Context, attrs ...slog.Attr) {
	if rec := recordOf(ctx); rec != nil {
		rec.attrs = append(rec.attrs, attrs...)
	}
}

// wrongMethod reports whether the request was refused for its method. Then the pattern that the router found is that of
// another route, and metrics must not count the request there.
func wrongMethod(ctx context.Context) bool {
	rec := recordOf(ctx)
	return rec != nil && rec.failure != nil && rec.failure.Kind == MethodNotAllowed
}

// NoteFailure has the access log say what a request was answered with.
func NoteFailure(ctx context.Context, f *Failure) {
	if rec := recordOf(ctx); rec != nil {
		rec.failure = f
	}
}

// requestIDHeader carries the request id both ways.
const requestIDHeader = "X-Request-Id"

// RequestID sets an id for each request, which becomes the correlation id of its events. A caller's own id is kept if
// it is a UUID.
func RequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := ParseUUID(r.Header.Get(requestIDHeader))
		if !ok {
			id = uuid.New()
		}
		w.Header().Set(requestIDHeader, id.String())
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), recordKey{}, &record{id: id, header: w.Header()})))
	})
}

// RequestIDOf is the id of the request that a context belongs to, or uuid.Nil.
func RequestIDOf(ctx context.Context) uuid.UUID {
	if rec := recordOf(ctx); rec != nil {
		return rec.id
	}
	return uuid.Nil
}

// Observer is called for each answered request; pattern is that of the route, never the path, so that its values are
// few.
type Observer func(method, pattern string, status int, took time.Duration)

// AccessLog writes a line for each request, without bodies, query strings and headers: successful reads at debug level,
// faults of ours at error level with their cause, all else at info level. Requests that fail because a dependency is
// away are warnings with their cause: in an outage these are many, and the log thins out repeated warnings. Of requests
// without a valid key it writes unknownCallerLines.
func AccessLog(log *slog.Logger, observe Observer) func(http.Handler) http.Handler {
	unknownCallers := slog.New(sampling.New(log.Handler(), unknownCallerLines))
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			started := time.Now()
			wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			next.ServeHTTP(wrapped, r)
			status, took := wrapped.Status(), time.Since(started)
			if status == 0 {
				status = http.StatusOK
			}
			observe(r.Method, PatternOf(r.Context()), status, took)
			level := levelOf(r.Method, status)
			if !log.Enabled(r.Context(), level) {
				return
			}
			attrs := []slog.Attr{
				slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", status),
				slog.Int("bytes", wrapped.BytesWritten()), slog.Duration("took", took), slog.String("peer", r.RemoteAddr),
			}
			rec, to := recordOf(r.Context()), log
			if unidentifiedCaller(rec) {
				to = unknownCallers
			}
			if rec != nil {
				attrs = append(append(attrs, slog.String("request", rec.id.String())), rec.attrs...)
				if rec.failure != nil {
					attrs = append(attrs, slog.String("refused", rec.failure.Error()))
				}
				if rec.failure != nil && rec.failure.Cause != nil && status >= http.StatusInternalServerError {
					attrs = append(attrs, slog.Any("error", rec.failure.Cause))
				}
			}
			to.LogAttrs(r.Context(), level, "request", attrs...)
		})
	}
}

// PatternOf returns the pattern of the route that answered a request.
func PatternOf(ctx context.Context) string {
	if route := chi.RouteContext(ctx); route != nil && !wrongMethod(ctx) {
		if p := route.RoutePattern(); p != "" && !strings.HasSuffix(p, "*") {
			return p
		}
	}
	return "unknown"
}

func levelOf(method string, status int) slog.Level {
	switch {
	case status == http.StatusServiceUnavailable:
		return slog.LevelWarn
	case status >= http.StatusInternalServerError:
		return slog.LevelError
	case status < http.StatusBadRequest && (method == http.MethodGet || method == http.MethodHead):
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// Recover answers a panic with 500 and logs its stack; the caller learns nothing of it.
func Recover(surface SurfaceOf) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := panics.Catch("request", func() error { next.ServeHTTP(w, r); return nil }); err != nil {
				surface(r).WriteError(w, r, &Failure{Kind: Internal, Cause: err})
			}
		})
	}
}

// PlainHTTPRefusal is the message of an answer to plain HTTP.
const PlainHTTPRefusal = "plain HTTP is not accepted: use https, and consider a key that was sent this way as leaked"

// RequireTLS refuses plain HTTP, because the key would cross the network in the clear, unless the peer is this very
// machine, or a trusted proxy which says that its own peer used HTTPS. A proxy that says otherwise is refused.
func RequireTLS(trusted []netip.Prefix, surface SurfaceOf) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !private(r, trusted) {
				surface(r).WriteError(w, r, &Failure{Kind: Unauthenticated, Issue: PlainHTTPRefusal})
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// private reports whether the request came by TLS all the way, or from this machine. Any hop that was not https makes
// the way plain, whichever peer says so.
func private(r *http.Request, trusted []netip.Prefix) bool {
	protos := strings.Split(strings.Join(r.Header.Values("X-Forwarded-Proto"), ","), ",")
	forwarded := len(r.Header.Values("X-Forwarded-Proto")) > 0
	notHTTPS := func(proto string) bool { return !strings.EqualFold(strings.TrimSpace(proto), "https") }
	if forwarded && slices.ContainsFunc(protos, notHTTPS) {
		return false
	}
	if r.TLS != nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address := peer.Addr().Unmap()
	return address.IsLoopback() || forwarded && within(address, trusted)
}

// forwardedFor is the header in which proxies say for whom they ask, each after those before it.
const forwardedFor = "X-Forwarded-For"

// ClientAddress is the address that a request comes from: the peer's, or if the peer is a trusted proxy, the last one
// that it and other trusted proxies name and that is not one of them. It is the zero value if the peer has none.
func ClientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap().WithZone("")
	if len(trusted) == 0 {
		return address
	}
	named := strings.Split(strings.Join(r.Header.Values(forwardedFor), ","), ",")
	for i := len(named) - 1; i >= 0 && within(address, trusted); i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(named[i]))
		if err != nil {
			break
		}
		address = next.Unmap().WithZone("")
	}
	return address
}

// ipv6Network is how many bits of an IPv6 address are one household's, or one machine's.
const ipv6Network = 64

// NetworkOf is the network of an address. One caller can have many addresses in it, so guesses are counted by it.
func NetworkOf(address netip.Addr) netip.Prefix {
	bits := address.BitLen()
	if address.Is6() {
		bits = ipv6Network
	}
	network, _ := address.Prefix(bits) // an address has no smaller network
	return network
}

func within(address netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// HeadAsGet lets every GET route answer HEAD.
func HeadAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			chi.RouteContext(r.Context()).RouteMethod = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// NoRoute answers requests to paths that no route has.
func NoRoute(surface SurfaceOf) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		surface(r).WriteError(w, r, &Failure{Kind: NotFound, Issue: "no such route: see /docs"})
	}
}

// HeaderTooLarge answers requests whose header is too large.
func HeaderTooLarge(surface SurfaceOf) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		surface(r).WriteError(w, r,
			Fail(BadParam, "header", "of the request is too large: 32 KiB is the limit, with the request line"))
	}
}

// NothingAtRoot answers requests for / as NoRoute does, without a key. Browsers are redirected to the console; a
// program gets an answer that names the routes.
func NothingAtRoot(surface SurfaceOf) func(http.Handler) http.Handler {
	nothing := NoRoute(surface)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
				if rec := recordOf(r.Context()); rec != nil {
					rec.anybody = true
				}
				nothing(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// WrongMethod answers requests to a path that has routes for other methods, and names them. It is answered as a missing
// route, since callers know no 405; the header Allow says the rest.
func WrongMethod(surface SurfaceOf) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		routes, path := chi.RouteContext(r.Context()).Routes, r.URL.EscapedPath()
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete} {
			if routes.Match(chi.NewRouteContext(), method, path) {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 { // a method that the router does not know at all
			NoRoute(surface)(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		surface(r).WriteError(w, r, &Failure{
			Kind:  MethodNotAllowed,
			Issue: "this path does not take " + shown(r.Method) + ": use " + strings.Join(allowed, " or "),
		})
	}
}

// shown keeps an unknown method out of the answer.
func shown(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	}
	return "this method"
}

// MethodLabel is a method as a metric's label: few values, whatever callers send.
func MethodLabel(method string) string {
	if shown(method) != method {
		return "OTHER"
	}
	return method
}
