package apiclient

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"time"

	"carillon/command/mtls"
)

// plainTransport returns a transport through the environment's proxy, which never serves loopback.
func plainTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: callTimeout,
	}
}

// transport is plainTransport, which accepts exactly the certificate of a file if one is named, whatever its name: it
// need not be made for a loopback address.
func transport(certificate string) (*http.Transport, error) {
	transport := plainTransport()
	if certificate == "" {
		return transport, nil
	}
	text, err := mtls.ReadPEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("certificate of the API: %w", err)
	}
	block, rest := pem.Decode(text)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, fmt.Errorf("certificate of the API: %s holds none in PEM", certificate)
	}
	transport.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // compared below
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("the API shows another certificate than %s", certificate)
			}
			return nil
		},
	}
	return transport, nil
}

const (
	maxEvent  = 16 << 20         // bytes
	silentFor = 30 * time.Second // after which a stream counts as lost; the server writes every few seconds
)

// Event is a server-sent event.
type Event struct{ Name, ID, Data string }

// Stream reads server-sent events and handles one at a time, until the stream ends. It calls opened when the stream has
// begun. A failure that the server answers with is an *Error.
func (c *Client) Stream(ctx context.Context, path string, opened func(), handle func(Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(silentFor, cancel)
	defer silence.Stop()
	response, err := c.get(ctx, path, "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	opened()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxEvent)
	var event Event
	for lines.Scan() {
		silence.Stop()
		if lines.Text() == "" && event.Data != "" {
			handle(event)
			event = Event{}
		}
		event.add(lines.Text())
		silence.Reset(silentFor)
	}
	return lines.Err()
}

// add reads one line of an event. A comment has no name.
func (e *Event) add(line string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		e.Name = value
	case "id":
		e.ID = value
	case "data":
		e.Data += value
	}
}
