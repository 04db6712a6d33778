package items

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	longestWord = 64     // characters; what is longer is no word
	mostWords   = 16_383 // of an item; a tsvector counts no farther
	mostText    = 1 << 18
)

// token is a word of a text, with what it weighs there.
type token struct {
	text   string
	weight byte
}

// tokens appends the words of a text, which may have HTML: runs of letters and digits, in one form and in lower case. In
// scripts that part no words, a run is a sentence.
func tokens(to []token, text string, weight byte) []token {
	text = withoutTags(text[:min(len(text), mostText)])
	if strings.Contains(text, "&") {
		text = html.UnescapeString(text)
	}
	text = strings.ToLower(norm.NFKC.String(text)) // neither copies what is in order
	for begin := 0; begin < len(text) && len(to) < mostWords; {
		end, next := wordEnd(text, begin)
		if one := text[begin:end]; end > begin && (len(one) <= longestWord || utf8.RuneCountInString(one) <= longestWord) {
			to = append(to, token{one, weight})
		}
		begin = next
	}
	return to
}

// vocabulary are words, each once. The zero value is ready to use.
type vocabulary struct {
	words   []string
	numbers map[string]int32
}

// word is one of a text: its number in the vocabulary, and what it weighs there.
type word struct {
	number int32
	weight byte
}

// add takes up the words of a text.
func (v *vocabulary) add(text []token) []word {
	if v.numbers == nil {
		v.numbers = map[string]int32{}
	}
	words := make([]word, len(text))
	for i, t := range text {
		number, known := v.numbers[t.text]
		if !known {
			number = int32(len(v.words)) //nolint:gosec // batches have fewer
			v.words, v.numbers[t.text] = append(v.words, t.text), number
		}
		words[i] = word{number, t.weight}
	}
	return words
}

// wordEnd gives the end of the word that begins at a place, which may be empty, and what comes after its separator.
func wordEnd(text string, begin int) (end, next int) {
	for i := begin; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		if parts(r) {
			return i, i + size
		}
		i += size
	}
	return len(text), len(text)
}

// parts reports whether a character parts words. What is no character, as of a text that was cut, does.
func parts(r rune) bool {
	if r < utf8.RuneSelf {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}
	return r == unicode.ReplacementChar || !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r)
}

// withoutTags puts a space in the place of each tag.
func withoutTags(text string) string {
	if !strings.Contains(text, "<") {
		return text
	}
	var plain strings.Builder
	plain.Grow(len(text))
	for {
		before, rest, found := strings.Cut(text, "<")
		plain.WriteString(before)
		if !found {
			return plain.String()
		}
		plain.WriteByte(' ')
		_, after, closed := strings.Cut(rest, ">")
		if !closed {
			after = rest // no tag
		}
		text = after
	}
}
