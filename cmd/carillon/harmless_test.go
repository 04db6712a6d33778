package main

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestHarmless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Grüße <&>\t1\n":             "Grüße <&>\t1\n",
		"\x1b[31m \u009b2J":          `\u001b[31m \u009b2J`,
		"a\u202eb\u2028\r":           `a\u202eb\u2028\u000d`,
		"\U000e0041 👩\u200d👧 \u00a0": "\\udb40\\udc41 👩\u200d👧 \u00a0",
		"\x9b":                       "\uFFFD",
	} {
		var whole, parts bytes.Buffer
		if n, err := (&harmless{to: &whole}).Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
		bytewise := &harmless{to: &parts}
		for i := range len(text) {
			_, _ = bytewise.Write([]byte(text[i : i+1]))
		}
		if whole.String() != want || parts.String() != want {
			t.Errorf("%q: %q, byte by byte %q", text, whole.String(), parts.String())
		}
	}
}

// TestJSONOutputSteersNoTerminal prints an event whose data has control characters of a terminal.
func TestJSONOutputSteersNoTerminal(t *testing.T) {
	t.Parallel()
	s := open(t)
	const title = "\u009b31m \u202etxt.exe \x1b[2J"
	l := s.listen("--types", "news.*")
	data, err := json.Marshal(map[string]string{"title": title})
	if err != nil {
		t.Fatal(err)
	}
	s.ok("trigger", "news.item.added", "--subject", "C1", "--data", string(data))
	got := l.next("C1") // of the JSON that is printed
	var envelope struct{ Data struct{ Title string } }
	if err := json.Unmarshal([]byte(got.Body), &envelope, json.MatchCaseInsensitiveNames(true)); err != nil ||
		envelope.Data.Title != title {
		t.Errorf("%q, %v", envelope.Data.Title, err)
	}
	shown := l.lines.Text()
	for _, args := range [][]string{
		{"events", "show", got.EventID}, {"events", "show", got.EventID, "--json"},
	} {
		shown += s.asked(args...)
	}
	for _, r := range shown {
		if steers(r) {
			t.Errorf("%U in %q", r, shown)
		}
	}
}
