package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
)

// server runs a server on a directory that collects nothing, and returns the address of its API, its key, and what
// stops it.
func server(t *testing.T, dir, database string, changes ...func(*config.Config)) (url, key string, stop func()) {
	t.Helper()
	cfg := settings(dir, database)
	cfg.Roles = []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver}
	for _, change := range changes {
		change(&cfg)
	}
	s := serve(t, cfg)
	return "http://" + s.app.APIAddr().String(), s.key, s.stop
}

// ask sends a request until it is answered with a status, and returns the answer.
func ask(t *testing.T, key, method, url, body string, want int) (answer string) {
	t.Helper()
	apitest.Eventually(t, method+" "+url+" is answered", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		answer = string(text)
		if response.StatusCode != want {
			t.Logf("%s %s: %d %s", method, url, response.StatusCode, text)
		}
		return response.StatusCode == want
	})
	return answer
}
