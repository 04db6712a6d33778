package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// client calls one of the two APIs, as curl would.
type client struct {
	base, token string
	http        *http.Client
}

// local talks to a server on this machine, and to no proxy. certificate is the file of the one that it shows, or ""
// where it speaks plain HTTP. Just this one is accepted, whatever its name: it need not be made for a loopback address.
func local(certificate string) (*http.Client, error) {
	transport := &http.Transport{Proxy: nil}
	if certificate == "" {
		return &http.Client{Timeout: patience, Transport: transport}, nil
	}
	text, err := os.ReadFile(certificate) //nolint:gosec // the path is the developer's own
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
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // compared below
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("the API shows another certificate than %s", certificate)
			}
			return nil
		},
	}
	return &http.Client{Timeout: patience, Transport: transport}, nil
}

// answerError is an answer that is no success.
type answerError struct {
	status        int
	code, message string
}

func (e *answerError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.code, e.message) }

// call sends a body, where there is one, and decodes the data of the answer into result, where wanted.
func (c client) call(ctx context.Context, method, path string, body, result any) error {
	var sent io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		sent = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var envelope struct {
		Success bool           `json:"success"`
		Data    jsontext.Value `json:"data"`
		Error   struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.UnmarshalRead(response.Body, &envelope); err != nil {
		return fmt.Errorf("%s answered %d, and not as Carillon does: if it speaks HTTPS, name its certificate (CARILLON_TLS_CERT or --tls-cert): %w", c.base, response.StatusCode, err)
	}
	if !envelope.Success {
		return &answerError{response.StatusCode, envelope.Error.Code, envelope.Error.Message}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(envelope.Data, result)
}
