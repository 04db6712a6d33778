package apiclient

import (
	"net/http"
	"testing"

	"carillon/eventstore/storetest/must"
)

func TestClientsUseTheProxy(t *testing.T) {
	t.Parallel()
	api := must.Get(New("http://api.example", "key", ""))(t)
	for _, client := range []*Client{api, NewAdmin("http://admin.example", "token")} {
		transport, ok := client.http.Transport.(*http.Transport)
		if !ok || transport.Proxy == nil {
			t.Errorf("the client of %s uses no proxy", client.base)
		}
	}
}
