package apiclient

import (
	"net/http"
	"testing"
)

func TestClientsUseTheProxy(t *testing.T) {
	t.Parallel()
	api, err := New("http://api.example", "key", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []*Client{api, NewAdmin("http://admin.example", "token")} {
		transport, ok := client.http.Transport.(*http.Transport)
		if !ok || transport.Proxy == nil {
			t.Errorf("the client of %s uses no proxy", client.base)
		}
	}
}
