package fetch_test

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"carillon/command/collect/crawl/fetch"
)

// A charset is that of the byte order mark, the header or the head; else it is guessed. A few broken bytes do not
// change it, and a named one stays.
func TestTextWithBrokenBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ contentType, body, want string }{
		{"text/html; charset=iso-8859-1", "Caf\xe9", "Café"},
		{"text/html", "<meta charset=shift_jis>\x89\xb9\x8a\x79", "<meta charset=shift_jis>音楽"},
		{"text/html; charset=iso-8859-1", "\xef\xbb\xbfCafé", "Café"},
		{"text/html", strings.Repeat(" ", 2000) + "Café", strings.Repeat(" ", 2000) + "Café"}, // beyond what is sniffed
		{"", "Caf\xe9", "Café"},
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

// TestTextWithoutCharset reads calendars in encodings that they don't name.
func TestTextWithoutCharset(t *testing.T) {
	t.Parallel()
	const before, after = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:", "\nEND:VEVENT\nEND:VCALENDAR\n"
	for name, words := range map[string]string{
		"windows-1251": "Концерт духового оркестра",
		"koi8-r":       "Концерт в Доме культуры",
		"windows-1253": "Συναυλία στο θέατρο",
		"windows-1255": "קונצרט בהיכל התרבות",
		"windows-1256": "حفلة موسيقية في المسرح",
		"windows-874":  "คอนเสิร์ตปีใหม่",
		"gbk":          "新年音乐会",
		"big5":         "新年音樂會 國家戲劇院",
		"euc-kr":       "봄 음악회 시민회관",
		"euc-jp":       "春のコンサート 市民会館",
		"shift_jis":    "春のコンサート 市民会館",
		"windows-1252": "Fête à l’hôtel",
		"utf-8":        "Концерт",
	} {
		e, err := htmlindex.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		body, err := e.NewEncoder().String(before + words + after)
		if err != nil {
			t.Fatal(err)
		}
		page := fetch.Page{Header: http.Header{}, Body: []byte(body)}
		if got, err := page.Text(); err != nil || got != before+words+after {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
