package apiclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/command/credential"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// answering runs a server that answers as the API does, and returns its address and the last request.
func answering(t *testing.T, status int, answer string) (address string, got *http.Request) {
	t.Helper()
	got = &http.Request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*got = *r
		got.Body = io.NopCloser(strings.NewReader(string(body)))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), got
}

func TestCallDecodesData(t *testing.T) {
	t.Parallel()
	address, got := answering(t, http.StatusCreated, `{"success":true,"data":{"id":"7"}}`)
	client, err := apiclient.Open(&config.API{HTTPAddr: address, APIKey: "ck_1"})
	must.OK(t, err)
	var created struct {
		ID string `json:"id"`
	}
	err = client.Call(t.Context(), http.MethodPost, "/x?y=1", map[string]int{"n": 1}, &created)
	assert.True(t, err == nil && created.ID == "7", "created %+v, %v", created, err)
	body, _ := io.ReadAll(got.Body)
	assert.True(t, got.URL.String() == "/x?y=1" && got.Header.Get("Authorization") == "Bearer ck_1" &&
		string(body) == `{"n":1}`, "sent %s %s %v %s", got.Method, got.URL, got.Header, body)
}

func TestCallReturnsTheServersError(t *testing.T) {
	t.Parallel()
	const answer = `{"success":false,"error":{"code":"NOT_FOUND","message":"no such thing"}}`
	address, _ := answering(t, http.StatusNotFound, answer)
	client, err := apiclient.Open(&config.API{HTTPAddr: address, APIKey: "ck_1"})
	must.OK(t, err)
	err = client.Call(t.Context(), http.MethodGet, "/", nil, nil)
	failure, ok := errors.AsType[*apiclient.Error](err)
	assert.True(t, ok && failure.Status == http.StatusNotFound && failure.Code == "NOT_FOUND" &&
		err.Error() == "no such thing", "%v", err)
	other, _ := answering(t, http.StatusOK, `<html>`)
	client = must.Get(apiclient.Open(&config.API{HTTPAddr: other, APIKey: "ck_1"}))(t)
	err = client.Call(t.Context(), http.MethodGet, "/", nil, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), "not as Carillon does"), "another program: %v", err)
}

func TestOpenFindsTheDevelopmentKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := apiclient.Open(&config.API{HTTPAddr: "127.0.0.1:8080", DataDir: dir})
	assert.True(t, err != nil && strings.Contains(err.Error(), "CARILLON_API_KEY"), "without a key: %v", err)
	key := credential.New(credential.APIKey).Reveal()
	must.OK(t, dev.KeepKey(dir, key))
	address, got := answering(t, http.StatusOK, `{"success":true}`)
	client := must.Get(apiclient.Open(&config.API{HTTPAddr: address, DataDir: dir}))(t)
	err = client.Call(t.Context(), http.MethodDelete, "/", nil, nil)
	assert.True(t, err == nil && got.Header.Get("Authorization") == "Bearer "+key, "%v, %v", got.Header, err)
	for _, elsewhere := range []string{"https://carillon.example", "carillon.example:443", "192.0.2.1:8080"} {
		_, err := apiclient.Open(&config.API{HTTPAddr: elsewhere, DataDir: dir})
		assert.True(t, err != nil && strings.Contains(err.Error(), "no API key for https://"),
			"the development key for %s: %v", elsewhere, err)
	}
}

// A server that takes the connection and hangs is named, with what to do.
func TestCallNamesServerThatHangs(t *testing.T) {
	t.Parallel()
	address, _ := answering(t, http.StatusOK, "")
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err := must.Get(apiclient.New("http://"+address, "ck_1", ""))(t).Call(late, http.MethodGet, "/", nil, nil)
	must.True(t, err != nil && strings.Contains(err.Error(), address+" did not answer in time: "), "%v", err)
}
