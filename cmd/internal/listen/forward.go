package listen

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"carillon/cmd/internal/dev"
)

const (
	forwardTimeout = 2 * time.Minute // the server gives up earlier
	maxAnswer      = 4 << 20
)

// hopByHop are headers about a connection, which are not passed on.
var hopByHop = []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Te", "Trailer"}

// forwarder returns a client that changes nothing: no proxy, no redirects, no compression.
func forwarder(authority *dev.Authority) *http.Client {
	transport := &http.Transport{DisableCompression: true, IdleConnTimeout: time.Minute}
	if authority != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: authority.Trust(), MinVersion: tls.VersionTLS12}
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
	request.Header = endToEnd(w.header)
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
