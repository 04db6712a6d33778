// Package webhook makes one delivery attempt: it renders the envelope, signs it by Standard Webhooks 1.0.0, posts it
// through the guarded transport of package egress, and reports the result. It keeps no state and retries nothing; the
// caller decides when to send, and how to handle a failure.
//
// A receiver sees
//
//	POST /its/path HTTP/1.1
//	accept: */*
//	content-type: application/json
//	user-agent: Carillon/1.2.3
//	webhook-id: the delivery's id, the same for every attempt
//	webhook-timestamp: unix seconds of this attempt
//	webhook-signature: v1,… one for each active secret
//
//	traceparent, tracestate: the span of this attempt, if the destination asks for it and it is traced
//
// and the destination's own headers.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
	"carillon/eventstore"
)

const (
	defaultTimeout = 30 * time.Second
	// bodyTimeout bounds the reading of an answer whose status is known: an endpoint that drips its body would else
	// hold a worker for nothing.
	bodyTimeout  = 5 * time.Second
	probeTimeout = 5 * time.Second
)

// Options of a [Sender].
type Options struct {
	// Version follows "Carillon/" in the user agent. Default "dev".
	Version string
	// Timeout of one attempt, from the look-up of the name to the status line. Default 30 s.
	Timeout time.Duration
	// Relay takes requests to relayed destinations. Optional.
	Relay Relay
}

// Sender posts deliveries and probes endpoints. It is safe for concurrent use.
type Sender struct {
	transport http.RoundTripper
	userAgent string
	timeout   time.Duration
	relay     Relay
}

// NewSender makes a sender on a transport of [egress.NewTransport]. Using the transport without a client means that
// redirects are never followed.
func NewSender(transport http.RoundTripper, opts Options) *Sender {
	if opts.Version == "" {
		opts.Version = "dev"
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	return &Sender{
		transport: transport,
		userAgent: "Carillon/" + opts.Version,
		timeout:   opts.Timeout,
		relay:     opts.Relay,
	}
}

// Request is one attempt.
type Request struct {
	URL     string            // https
	Headers map[string]string // the destination's own; reserved names are ignored
	Secrets []Secret          // every active secret; at least one
	ID      string            // the webhook-id; no dot in it
	Body    []byte            // the rendered [Envelope]
	// Trace names the span of the attempt, and replaces such headers of the destination. Optional.
	Trace eventstore.Trace
	// Now is the moment of the attempt, for the timestamp and Retry-After.
	// Default: the clock.
	Now time.Time
	// Via are connections that show the client certificate of the destination's organization. Default: the sender's own,
	// which show none.
	Via http.RoundTripper
	// Organization is the destination's, for a relay.
	Organization uuid.UUID
}

// Result is the result of an attempt.
type Result struct {
	// StatusCode is 0 if no answer came.
	StatusCode int
	// Body is the answer's, as valid UTF-8 without NUL, at most [MaxBodyCharacters] and then [TruncationSuffix].
	Body string
	// Headers are those of an answer that is no success, a line each as shownHeaders writes them. The headers of a success
	// are not kept: they would make each delivery's record twice as large.
	Headers string
	// RetryAfter is the wait the endpoint asked for on 429, 502, 503 or 504; 0 for none, at most 24 h.
	RetryAfter time.Duration
	// Duration runs from the start to the end of the answer.
	Duration time.Duration
	// FailureReason and ErrorMessage are empty on success. The message is fit for the destination's owner: no secret,
	// header value or URL.
	FailureReason delivery.Failure
	ErrorMessage  string
	// Kept means that the connection stays open for the next request, which else opens another one.
	Kept bool
	// Aborted means that the caller's context was cancelled before an answer came: nothing is known about the endpoint,
	// so the attempt should not count. The receiver may have got the request.
	Aborted bool
}

// OK reports a 2xx answer.
func (r Result) OK() bool { return r.FailureReason == "" }

var errTimeout = errors.New("attempt timed out")

// Send makes one attempt. A 2xx status is a success, whatever happens to the body after it.
func (s *Sender) Send(ctx context.Context, r Request) Result {
	if r.Now.IsZero() {
		r.Now = time.Now()
	}
	if len(r.Secrets) == 0 {
		// Better a failed attempt than one that receivers can't verify.
		return Result{FailureReason: delivery.FailureConnection, ErrorMessage: "destination has no active secret"}
	}
	return s.exchange(ctx, s.via(&r), s.timeout, r.Now, r.conceal, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, egress.WireURL(r.URL), bytes.NewReader(r.Body))
		if err == nil {
			req.GetBody = nil // net/http may send a request again that has an idempotency key, although it may have arrived
			s.setHeaders(req.Header, r)
		}
		return req, err
	})
}

// conceal returns what replaces the parts of an answer that must not be stored in the open.
func (r *Request) conceal() *concealer { return newConcealer(r.URL, r.Headers, r.Secrets...) }

func (s *Sender) setHeaders(header http.Header, r Request) {
	header["Accept"] = []string{acceptAll}
	for name, value := range r.Headers {
		switch canonical := http.CanonicalHeaderKey(name); {
		case reserved(canonical) != "", r.Trace.Parent != "" && (canonical == traceparent || canonical == tracestate):
			continue
		case canonical == "Accept":
			delete(header, "Accept")
		}
		header[name] = []string{value} // as typed: some receivers distinguish upper and lower case
	}
	// Lower case, as the specification writes them; net/http leaves it alone.
	header["webhook-id"] = []string{r.ID}
	header["webhook-timestamp"] = []string{strconv.FormatInt(r.Now.Unix(), 10)}
	header["webhook-signature"] = []string{Sign(r.Secrets, r.ID, r.Now, r.Body)}
	if r.Trace.Parent != "" {
		header["traceparent"] = []string{r.Trace.Parent}
	}
	if r.Trace.State != "" {
		header["tracestate"] = []string{r.Trace.State}
	}
	header["Content-Type"] = []string{dataContentType}
	header["User-Agent"] = []string{s.userAgent}
}

// Canonical names of the headers that name a span.
const (
	traceparent = "Traceparent"
	tracestate  = "Tracestate"
)

// acceptAll is the Accept header of requests whose destination has none: some firewalls block requests without it.
const acceptAll = "*/*"

// exchange runs one request under a timeout.
func (s *Sender) exchange(
	parent context.Context, via http.RoundTripper, timeout time.Duration, now time.Time, conceal func() *concealer,
	build func(context.Context) (*http.Request, error),
) (result Result) {
	start := time.Now()
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	timer := time.AfterFunc(timeout, func() { cancel(errTimeout) })
	defer timer.Stop()

	showed := shown{certificate: via != nil, stage: new(atomic.Pointer[string])}
	if via == nil {
		via = s.transport
	}
	var kept atomic.Bool
	resp, err := roundTrip(ctx, via, &showed, &kept, build)
	if errors.Is(err, errInvalidURL) {
		return Result{FailureReason: delivery.FailureConnection, ErrorMessage: err.Error()}
	}
	if err != nil {
		result = failed(parent, ctx, err, showed, time.Since(start))
		result.ErrorMessage = conceal().replace(result.ErrorMessage)
		return result
	}
	defer func() { _ = resp.Body.Close() }()
	timer.Reset(min(bodyTimeout, max(timeout-time.Since(start), 0)))
	if resp.StatusCode < http.StatusContinue { // net/http takes any three digits
		return Result{
			FailureReason: delivery.FailureConnection,
			ErrorMessage:  malformed + "it has no valid HTTP status",
			Duration:      time.Since(start),
		}
	}
	result = Result{StatusCode: resp.StatusCode}
	result.FailureReason, result.ErrorMessage = classify(resp.StatusCode, func() string {
		return conceal().replace(resp.Header.Get("Location"))
	})
	if result.FailureReason != "" {
		result.Headers = shownHeaders(resp.Header, conceal())
	}
	result.ErrorMessage += showed.afterStatus(resp.StatusCode)
	if resp.Body != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols {
		result.Body = readBody(resp.Body, resp.ContentLength, func(raw []byte) string {
			return answerText(raw, resp.Header, conceal)
		})
	}
	result.Duration = time.Since(start)
	result.Kept = kept.Load() // reported before the body ends
	result.RetryAfter = retryAfter(resp.StatusCode, resp.Header, now.Add(result.Duration))
	return result
}

var errInvalidURL = errors.New("destination URL is not a valid https URL")

// roundTrip sends one request. If a used connection has ended, and nothing of the request was written to it, another
// one is taken. If anything was written, the receiver may have got the request: it does not go out again.
func roundTrip(
	ctx context.Context, via http.RoundTripper, showed *shown, kept *atomic.Bool,
	build func(context.Context) (*http.Request, error),
) (*http.Response, error) {
	for {
		reused := false // the last connection that was tried
		var conn *egress.Conn
		trace := &httptrace.ClientTrace{
			DNSStart:          func(httptrace.DNSStartInfo) { showed.begin(stageName) },
			ConnectStart:      func(string, string) { showed.begin(stageConnect) },
			TLSHandshakeStart: func() { showed.begin(stageTLS) },
			GotConn: func(got httptrace.GotConnInfo) {
				showed.begin(stageAnswer)
				reused = got.Reused
				if conn = egress.ConnOf(got.Conn); conn != nil && reused {
					conn.WasIdle()
				}
			},
			PutIdleConn: func(err error) { kept.Store(err == nil || enoughIdle(err)) },
		}
		req, err := build(httptrace.WithClientTrace(ctx, trace))
		if err != nil || req.URL.Scheme != "https" {
			return nil, errInvalidURL
		}
		resp, err := via.RoundTrip(req)
		_, asked := errors.AsType[*egress.AskedError](err)
		showed.asked = asked || conn != nil && conn.Asked()
		if reused && err != nil && (closedIdle(err) || conn != nil && conn.Unused()) && ctx.Err() == nil {
			continue // each go takes an idle connection away, so it ends
		}
		return resp, err
	}
}

// enoughIdle reports that a connection was not kept because as many are idle to the same host as may be, of which the
// next request takes one. net/http has no name for that error.
func enoughIdle(err error) bool {
	return err.Error() == "http: putIdleConn: too many idle connections for host"
}

// closedIdle reports that a connection ended before it was given the request. net/http has no name for that error.
func closedIdle(err error) bool {
	return err != nil && err.Error() == "http: server closed idle connection"
}

func failed(parent, ctx context.Context, err error, showed shown, took time.Duration) Result {
	result := Result{Duration: took}
	switch {
	case errors.Is(parent.Err(), context.Canceled):
		result.Aborted = true
		result.FailureReason, result.ErrorMessage = delivery.FailureConnection, "attempt was cancelled"
		return result
	case errors.Is(context.Cause(ctx), errTimeout), errors.Is(parent.Err(), context.DeadlineExceeded):
		result.FailureReason = delivery.FailureTimeout
	default:
		result.FailureReason = egress.Classify(err)
	}
	if refused, words := showed.refused(err); refused {
		result.FailureReason, result.ErrorMessage = delivery.FailureTLS, words
		return result
	}
	result.ErrorMessage = describe(err, result.FailureReason, showed.late(took)) +
		showed.afterFailure(result.FailureReason)
	return result
}
