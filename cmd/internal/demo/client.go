package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// client calls one of the two APIs, as curl would.
type client struct{ base, token string }

// localClient talks to the server on this machine, and to no proxy.
var localClient = &http.Client{Timeout: patience, Transport: &http.Transport{Proxy: nil}}

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
	response, err := localClient.Do(request)
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
		return fmt.Errorf("answer %d: %w", response.StatusCode, err)
	}
	if !envelope.Success {
		return &answerError{response.StatusCode, envelope.Error.Code, envelope.Error.Message}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(envelope.Data, result)
}
