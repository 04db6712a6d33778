package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"carillon/cmd/internal/wire"
)

func TestReasonFlagIsSent(t *testing.T) {
	t.Parallel()
	const id = "0d000000-0000-4000-8000-000000000001"
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.Header.Get(wire.ReasonHeader))
		_, _ = w.Write([]byte(`{"success":true,"data":{"id":"` + id + `","deliveryId":"` + id + `"}}`))
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	commands := [][]string{
		{"org", "create", "Town hall"}, {"keys", "renew"}, {"deliveries", "replay", id, "--org", id}, {"audit", "seal"},
		{"delivery", "retry", id, "--org", id}, {"destination", "recover", "crm", "--org", id},
	}
	for _, args := range commands {
		var out, errors bytes.Buffer
		args = append(args, "--reason", "ticket 7", "--admin-addr", address, "--admin-token", "secret")
		if code := run(t.Context(), args, terminal{in: &bytes.Buffer{}, out: &out, err: &errors}); code != 0 {
			t.Errorf("%v: exit %d\n%s", args, code, errors.String())
		}
	}
	if want := slices.Repeat([]string{"POST ticket 7"}, len(commands)); !slices.Equal(got, want) {
		t.Errorf("the server got %q", got)
	}
}
