package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/command"
)

// Data that was stored before its depth was bounded can be read, as deep as a JSON text can be.
func TestDeepDataCanBeRead(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.published(t, s.subscribed(t, "crm").ID, command.Publish{Subject: `"data":0`})
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	if _, err := s.Pool.Exec(t.Context(), "UPDATE publications.publications SET data = $1 WHERE organization = $2",
		[]byte(deep), s.org); err != nil {
		t.Fatal(err)
	}
	// beside the contract, which can't read it
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/events/deliveries/"+id, nil)
	r.RemoteAddr = "127.0.0.1:40000"
	r.Header.Set("Authorization", "Bearer "+s.key)
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, `"data":`+deep+`}`) ||
		!strings.Contains(body, `"subject":"\"data\":0"`) {
		t.Errorf("answered %d, %d bytes", w.Code, len(body))
	}
}
