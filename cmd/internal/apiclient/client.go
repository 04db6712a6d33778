// Package apiclient calls the API, or the admin API, as any program does: with a key, in JSON.
package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
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
	"carillon/cmd/internal/wire"
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
	reason    string // of the requests. Optional
	http      *http.Client
	named     string // how its address is set
	help      string // what may be wrong if something else answers
}

// New makes a client for a base URL such as http://127.0.0.1:8080. The certificate is a file with the one that the
// server shows; "" means that a known authority has signed it.
func New(base, key, certificate string) (*Client, error) {
	transport, err := transport(certificate)
	if err != nil {
		return nil, err
	}
	return &Client{
		base:  base,
		key:   key,
		http:  &http.Client{Transport: transport},
		named: "CARILLON_HTTP_ADDR or --http-addr",
		help:  "If it speaks HTTPS, name its certificate (CARILLON_TLS_CERT or --tls-cert)",
	}, nil
}

// NewAdmin makes a client for the base URL of an admin API, such as http://127.0.0.1:8081, through the
// environment's proxy.
func NewAdmin(base, token string) *Client {
	const named = "CARILLON_ADMIN_ADDR or --admin-addr"
	return &Client{
		base:  base,
		key:   token,
		http:  &http.Client{Transport: plainTransport()},
		named: named,
		help:  "The admin API's is 127.0.0.1:8081 by default (" + named + ")",
	}
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

// WithReason returns a client whose requests have a reason. Empty: none.
func (c *Client) WithReason(reason string) *Client {
	copied := *c
	copied.reason = reason
	return &copied
}

// Derive returns 32 bytes that follow from the key, for one purpose. They don't disclose it.
func (c *Client) Derive(purpose string) []byte {
	mac := hmac.New(sha256.New, []byte(c.key))
	_, _ = mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

// Base returns the server's URL.
func (c *Client) Base() string { return c.base }

// Call sends a body, if it is not nil, and decodes the data of the answer into result, if that is not nil. A failure
// that the server answers with is an *Error.
func (c *Client) Call(ctx context.Context, method, path string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.CallPatiently(ctx, method, path, body, result)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer in time: it hangs, or has too much to do; look into its log, and try again",
			c.base)
	}
	return err
}

// CallPatiently is Call for what may take long: only the context limits it.
func (c *Client) CallPatiently(ctx context.Context, method, path string, body, result any) error {
	if body == nil {
		return c.Send(ctx, method, path, Body{}, result)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return c.Send(ctx, method, path, Body{
		Reader: bytes.NewReader(raw),
		Media:  "application/json",
	}, result)
}

// Body is the body of a request. The zero Body is none.
type Body struct {
	io.Reader

	Size   int64 // Optional: a body of unknown size is sent in chunks.
	Media  string
	Accept string // the media type of the answer. Optional.
}

// Send is CallPatiently with a body as it stands.
func (c *Client) Send(ctx context.Context, method, path string, body Body, result any) error {
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

// Download writes what the server answers with while it is received. After an error, it is incomplete.
func (c *Client) Download(ctx context.Context, path, media string, to io.Writer) error {
	response, err := c.get(ctx, path, media)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(to, response.Body); err != nil {
		return fmt.Errorf("the answer of %s broke off before its end: %w", c.base, err)
	}
	return nil
}

// get returns an answer of a media type whose body is to be read.
func (c *Client) get(ctx context.Context, path, media string) (*http.Response, error) {
	response, err := c.send(ctx, http.MethodGet, path, Body{Accept: media})
	if err != nil || response.StatusCode == http.StatusOK {
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	return nil, cmp.Or(c.decode(response.StatusCode, data, nil), fmt.Errorf("%s answered %d", c.base, response.StatusCode))
}

func (c *Client) send(ctx context.Context, method, path string, body Body) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body.Reader)
	if err != nil {
		return nil, err
	}
	if body.Size > 0 {
		request.ContentLength = body.Size
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if c.reason != "" {
		request.Header.Set("X-Carillon-Reason", c.reason)
	}
	if body.Accept != "" {
		request.Header.Set("Accept", body.Accept)
	}
	if body.Media != "" {
		request.Header.Set("Content-Type", body.Media)
	}
	response, err := c.http.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no server answers at %s: start one (carillon serve), or name its address (%s)",
			c.base, c.named)
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
		return fmt.Errorf("%s answered %d, and not as Carillon does: is the address right? %s", c.base, status, c.help)
	case envelope.Error.Message == wire.PlainHTTPRefusal:
		return fmt.Errorf("%s: %s. %s", c.base, envelope.Error.Message, c.help)
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
