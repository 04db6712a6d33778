package webhook

import (
	"context"
	"net/http"
	"time"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
)

// Reachability is the result of a probe.
type Reachability struct {
	// Reachable means that the endpoint gave an HTTP answer, of any status.
	Reachable bool
	// StatusCode is 0 if no answer came.
	StatusCode int
	// ResponseTime is how long the answer, or its failure, took.
	ResponseTime time.Duration
	// FailureReason and ErrorMessage say why there was no answer; empty else.
	FailureReason delivery.Failure
	ErrorMessage  string
}

// ResponseTimeMs is the response time in whole milliseconds.
func (r Reachability) ResponseTimeMs() int64 { return r.ResponseTime.Milliseconds() }

// Probe asks whether an endpoint is there, within 5 s and under the same guard as deliveries. It sends a HEAD request
// without body, signature or custom headers: HEAD changes nothing at the receiver and can't be mistaken for a delivery,
// whereas an empty POST would raise alarms there as a forged one. Any status counts as reachable, 404 and 405 included,
// since endpoints that take only signed POSTs answer so.
//
// via is as in a Request.
func (s *Sender) Probe(ctx context.Context, via http.RoundTripper, url string) Reachability {
	if s.relay != nil && RelayToken(url) != "" {
		return unprobed
	}
	conceal := func() *concealer { return newConcealer(url, nil) }
	result := s.exchange(ctx, via, probeTimeout, time.Time{}, conceal, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, egress.WireURL(url), http.NoBody)
		if err == nil {
			req.Header.Set("Accept", acceptAll)
			req.Header.Set("User-Agent", s.userAgent)
		}
		return req, err
	})
	found := Reachability{StatusCode: result.StatusCode, ResponseTime: result.Duration}
	if found.Reachable = result.StatusCode != 0; !found.Reachable {
		found.FailureReason, found.ErrorMessage = result.FailureReason, result.ErrorMessage
	}
	return found
}
