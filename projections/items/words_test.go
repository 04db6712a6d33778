package items

import (
	"html"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"carillon/eventstore/storetest/assert"
)

// byTheBook returns the words of a text by the steps of docs/use/relevance.md.
func byTheBook(text string) []string {
	text = text[:min(len(text), mostText)]
	text = strings.ToLower(norm.NFKC.String(html.UnescapeString(withoutTags(text))))
	var words []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r)
	}) {
		if len([]rune(word)) <= longestWord {
			words = append(words, word)
		}
	}
	return words
}

// Words are read in one go, and each is kept once; they are those that one finds step by step, as often.
func TestWordsAreThoseOfTheDescription(t *testing.T) {
	t.Parallel()
	pieces := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom([]string{
		"jazz", "JAZZ", "Jazz-Club", " ", "<b>", "</b>", "<", ">", "&amp;", "&lt;b&gt;", "&", "é", "e\u0301", "<\u0338", "É",
		"ß", "İstanbul",
		"ﬁne", "①", "日本", "\xff", "\xc3", "\ufffd", "Вечер", "K", "a1", strings.Repeat("x", 64), strings.Repeat("é", 65),
		"\u00a0", "Σίσυφος",
	}), rapid.String()), 0, 30)
	read := rapid.Custom(func(t *rapid.T) string { return strings.Join(pieces.Draw(t, "pieces"), "") })
	rapid.Check(t, func(t *rapid.T) {
		texts := [parts]string{
			inTitle:       read.Draw(t, "title"),
			inDescription: read.Draw(t, "description"),
			beside:        read.Draw(t, "beside"),
		}
		want := map[string]counts{}
		got := map[string]counts{}
		for in, one := range texts {
			for _, word := range byTheBook(one) {
				of := want[word]
				of[in]++
				want[word] = of
			}
		}
		all := textBy(func(r *reader) {
			for in, one := range texts {
				r.add(one, part(in))
			}
		})
		for _, w := range all.words {
			word := all.letters[w.begin:w.end]
			if _, twice := got[word]; twice {
				t.Errorf("%q is there twice", word)
			}
			got[word] = w.in
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q, step by step (-), at once (+):\n%s", texts, diff)
		}
	})
}

// An item has a limited number of words, and none of an earlier item.
func TestManyWords(t *testing.T) {
	t.Parallel()
	count := func(text string) (words, different int) {
		all := textBy(func(r *reader) { r.add(text, inTitle) })
		for _, w := range all.words {
			words += int(w.in[inTitle])
		}
		return words, len(all.words)
	}
	var many strings.Builder
	for i := range 2 * mostWords {
		many.WriteString(string(rune('一'+i%5000)) + string(rune('一'+i/5000)) + " ")
	}
	for _, tt := range []struct {
		text             string
		words, different int
	}{
		{many.String(), mostWords, mostWords},
		{strings.Repeat("the same ", mostWords), mostWords, 2},
		{"so few", 2, 2},
		{strings.Repeat("<", mostText), 0, 0}, // tags that are not closed are looked for once
		{strings.Repeat("&<", mostText/2), 0, 0},
	} {
		words, different := count(tt.text)
		assert.True(t, words == tt.words && different == tt.different,
			"%.20q has %d words, %d of them different, not %d and %d", tt.text, words, different, tt.words, tt.different)
	}
}
