package plaintext_test

import (
	"testing"

	"carillon/command/plaintext"
)

func TestTextOfOthers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Stadt Köln, \u200eoffice":           "Stadt Köln, �office",
		"\u202egnp.exe":                      "�gnp.exe",
		"a\u2066b\u2069c\u061cd":             "a�b�c�d",
		"line\nfeed\rand\ttab\x00\u0085\x7f": "line�feed�and�tab���",
		"two\u2028lines\u2029":               "two�lines�",
		"zero\u200bwidth\ufeff\u2060":        "zero�width��",
		"👩\u200d🔧 نمی\u200cخواهم שלום":       "👩\u200d🔧 نمی\u200cخواهم שלום",
		"bad \xff": "bad �",
	} {
		if got := plaintext.Of(text); got != want || plaintext.Is(text) != (text == want || text == "bad \xff") {
			t.Errorf("%q: %q, plain %t", text, got, plaintext.Is(text))
		}
	}
}
