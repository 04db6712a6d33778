package listen

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	forwardTimeout = 2 * time.Minute // the server gives up earlier
	maxAnswer      = 4 << 20
)

// hopByHop are headers about a connection, which are not passed on.
var hopByHop = []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Te", "Trailer"}

// forwarder returns a client that changes nothing: no proxy, no redirects, no compression.
func forwarder(trust *tls.Config) *http.Client {
	transport := &http.Transport{
		DisableCompression: true,
		IdleConnTimeout:    time.Minute,
		TLSClientConfig:    trust,
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       forwardTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// forward passes a webhook on, and its answer back.
func (l *listener) forward(ctx context.Context, w webhook) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Forward, bytes.NewReader(w.body))
	if err != nil {
		return unanswered(err)
	}
	request.Header = asSent(endToEnd(w.header), w.names)
	response, err := l.client.Do(request)
	if err != nil {
		return unanswered(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return unanswered(err)
	}
	return answer{
		status: response.StatusCode,
		header: endToEnd(response.Header),
		body:   body,
		by:     "forwarded",
	}
}

// inLowerCase are headers of a webhook that are sent so, as their specifications write them.
var inLowerCase = []string{"webhook-id", "webhook-timestamp", "webhook-signature", "traceparent"}

// asSent returns headers whose names are spelled as the server spells them: net/http would change them.
func asSent(header http.Header, names []string) http.Header {
	for _, name := range names {
		if values, found := header[http.CanonicalHeaderKey(name)]; found {
			delete(header, http.CanonicalHeaderKey(name))
			header[name] = values
		}
	}
	return header
}

func endToEnd(header http.Header) http.Header {
	kept := header.Clone()
	for _, name := range hopByHop {
		kept.Del(name)
	}
	return kept
}

func unanswered(err error) answer {
	text := fmt.Sprintf("carillon listen could not forward: %v\n", err)
	return answer{status: http.StatusBadGateway, body: []byte(text), by: err.Error()}
}
