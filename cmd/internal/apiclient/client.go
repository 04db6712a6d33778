// Package apiclient calls the API, or the admin API, as any program does: with a key, in JSON.
package apiclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
)

const (
	callTimeout = 30 * time.Second
	maxAnswer   = 64 << 20 // bytes
)

// Error is a failure that the API answered with.
type Error struct {
	Status  int
	Code    string
	Message string
	Details jsontext.Value // Optional.
}

// Error returns the message, which says what to do.
func (e *Error) Error() string { return e.Message }

// Client calls one server.
type Client struct {
	base, key string
	http      *http.Client
}

// New makes a client for a base URL such as http://127.0.0.1:8080. The certificate is a file with the one that the
// server shows; "" means that a known authority has signed it.
func New(base, key, certificate string) (*Client, error) {
	transport, err := transport(certificate)
	if err != nil {
		return nil, err
	}
	return &Client{base: base, key: key, http: &http.Client{Transport: transport}}, nil
}

// Open makes a client for the API that the settings name. Without a key it takes the development key, and only for a
// server on this machine.
func Open(settings *config.API) (*Client, error) {
	base, err := settings.BaseURL()
	if err != nil {
		return nil, err
	}
	key := settings.APIKey.Reveal()
	if key == "" {
		if !settings.OnThisMachine() {
			return nil, fmt.Errorf("no API key for %s: set CARILLON_API_KEY or --key; "+
				"an operator issues one (carillon key issue ORG)", base)
		}
		key, err = dev.ReadKey(settings.DataDir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no API key: %s is not the data directory of a development server. "+
				"Start one (carillon serve --dev), name its directory (CARILLON_DATA_DIR or --data-dir), "+
				"or set CARILLON_API_KEY", settings.DataDir)
		}
		if err != nil {
			return nil, err
		}
	}
	return New(base, key, settings.TLSCert)
}

// Base returns the server's URL.
func (c *Client) Base() string { return c.base }

// Call sends a body, if it is not nil, and decodes the data of the answer into result, if that is not nil. A failure
// that the server answers with is an *Error.
func (c *Client) Call(ctx context.Context, method, path string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	return c.decode(response.StatusCode, data, result)
}

func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		sent = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no server answers at %s: start one (carillon serve), "+
			"or name its address (CARILLON_HTTP_ADDR or --http-addr)", c.base)
	}
	return response, err
}

func (c *Client) decode(status int, data []byte, result any) error {
	var envelope struct {
		Success bool           `json:"success"`
		Data    jsontext.Value `json:"data"`
		Error   struct {
			Code    string         `json:"code"`
			Message string         `json:"message"`
			Details jsontext.Value `json:"details"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(data, &envelope); {
	case err != nil || !envelope.Success && envelope.Error.Message == "":
		return fmt.Errorf("%s answered %d, and not as Carillon does: is the address right? "+
			"If it speaks HTTPS, name its certificate (CARILLON_TLS_CERT or --tls-cert)", c.base, status)
	case !envelope.Success:
		return &Error{
			Status:  status,
			Code:    envelope.Error.Code,
			Message: envelope.Error.Message,
			Details: envelope.Error.Details,
		}
	case result == nil || len(envelope.Data) == 0:
		return nil
	}
	return json.Unmarshal(envelope.Data, result)
}
