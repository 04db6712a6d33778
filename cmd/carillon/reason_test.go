package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/cmd/internal/wire"
)

func TestReasonFlagIsSent(t *testing.T) {
	t.Parallel()
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.Header.Get(wire.ReasonHeader))
		_, _ = w.Write([]byte(`{"success":true,"data":{"id":"0d000000-0000-4000-8000-000000000001","deliveryId":"x"}}`))
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	id := "0d000000-0000-4000-8000-000000000001"
	for _, args := range [][]string{
		{"org", "create", "Town hall"}, {"keys", "renew"}, {"deliveries", "replay", id, "--org", id}, {"audit", "seal"},
	} {
		var out, errors bytes.Buffer
		args = append(args, "--reason", "ticket 7", "--admin-addr", address, "--admin-token", "secret")
		if code := run(t.Context(), args, terminal{in: &bytes.Buffer{}, out: &out, err: &errors}); code != 0 {
			t.Errorf("%v: exit %d\n%s", args, code, errors.String())
		}
	}
	if want := "POST ticket 7,POST ticket 7,POST ticket 7,POST ticket 7"; strings.Join(got, ",") != want {
		t.Errorf("the server got %q", got)
	}
}
