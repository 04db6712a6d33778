package fetch_test

import (
	"net/http"
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"carillon/command/collect/crawl/fetch"
)

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
