package apiclient

import (
	"net/http"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestClientsUseTheProxy(t *testing.T) {
	t.Parallel()
	api := must.Get(New("http://api.example", "key", ""))(t)
	for _, client := range []*Client{api, NewAdmin("http://admin.example", "token")} {
		transport, ok := client.http.Transport.(*http.Transport)
		assert.True(t, ok && transport.Proxy != nil, "the client of %s uses no proxy", client.base)
	}
}
