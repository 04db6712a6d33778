package fetch_test

import (
	"net/http"
	"testing"

	"carillon/command/collect/crawl/fetch"
)

// A few broken bytes do not change the charset of a text, and a named one stays.
func TestTextWithBrokenBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ contentType, body, want string }{
		{"text/calendar", "Fête \xc3\r\n", "Fête \ufffd\r\n"},
		{"", "Fête, café, über \xff\xfe", "Fête, café, über \ufffd"},
		{"text/html", "Привет \xd0", "Привет \ufffd"},
		{"text/html", "日本語\x80", "日本語\ufffd"},
		{"text/plain", "F\xeate de la musique", "Fête de la musique"},
		{"text/plain", "\x84Spa\xdf\x93 und \x84Fu\xdf\x93", "„Spaß“ und „Fuß“"},
		{"text/html; charset=iso-8859-1", "F\xc3\xaate \xe9", "FÃªte é"},
		{"text/html", `<meta charset="windows-1252">FÃ` + "\xc3\xaa\xe9", `<meta charset="windows-1252">FÃƒÃªé`},
		{"text/html; charset=utf-8", "F\xeate", "F\ufffdte"},
	} {
		page := &fetch.Page{Header: http.Header{"Content-Type": {tt.contentType}}, Body: []byte(tt.body)}
		if got, err := page.Text(); err != nil || got != tt.want {
			t.Errorf("%s %q gives %q, want %q (%v)", tt.contentType, tt.body, got, tt.want, err)
		}
	}
}
