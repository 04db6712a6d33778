package items

import (
	"bytes"
	"hash/maphash"
	"html"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	longestWord = 64     // characters; longer sequences are no words
	mostWords   = 16_383 // of an item; a tsvector counts no farther
	mostText    = 1 << 18
)

// part is one of an item's texts, by the weight of its words.
type part int

// The parts of an item.
const (
	inTitle part = iota
	inSummary
	inDescription
	beside
	parts
)

// counts say how often a word is in each part.
type counts [parts]uint16

// text are the words of an item, each once, in the order in which they come.
type text struct {
	letters string // of all words, one after the other
	words   []counted
}

type counted struct {
	begin, end uint32 // of its letters
	in         counts
}

// reader finds words: runs of letters and digits, in one form and in lower case. In scripts that part no words, a run
// is a sentence. Texts may have HTML.
type reader struct {
	letters []byte
	words   []counted
	table   []int32 // of words by hash: one more than the place; a power of two, at most half of them used
	read    int     // words, repeated ones included

	word  []byte // the one that is being read
	runes int    // of it
}

const tableSize = 512

var (
	seed    = maphash.MakeSeed()
	readers = sync.Pool{New: func() any { return &reader{table: make([]int32, tableSize)} }}
)

// textBy returns the words that a function has read.
func textBy(read func(*reader)) text {
	r, _ := readers.Get().(*reader) // it has no others
	read(r)
	t := text{string(r.letters), append([]counted(nil), r.words...)}
	if len(r.table) > tableSize {
		return t // there are few of that size, and clearing it takes longer
	}
	clear(r.table)
	r.letters, r.words, r.read = r.letters[:0], r.words[:0], 0
	readers.Put(r)
	return t
}

// add reads a text.
func (r *reader) add(text string, in part) {
	text = text[:min(len(text), mostText)]
	tags := true
	if strings.Contains(text, "&") || !norm.NFKC.IsNormalString(text) {
		text, tags = norm.NFKC.String(html.UnescapeString(withoutTags(text))), false
	}
	for i := 0; i < len(text) && r.read < mostWords; {
		c := text[i]
		if lower := lowered[c]; lower != 0 {
			r.letter(lower)
			i++
			continue
		}
		if c < utf8.RuneSelf {
			r.end(in)
			i++
			if c == '<' && tags {
				length := strings.IndexByte(text[i:], '>') + 1
				i, tags = i+length, length > 0
			}
			continue
		}
		char, size := utf8.DecodeRuneInString(text[i:])
		i += size
		if char = unicode.ToLower(char); partsWords(char) {
			r.end(in)
			continue
		}
		if r.runes++; r.runes <= longestWord {
			r.word = utf8.AppendRune(r.word, char)
		}
	}
	r.end(in)
}

// lowered are the letters and digits of ASCII in lower case; zero for all else.
var lowered = func() (lower [256]byte) {
	for c := '0'; c <= '9'; c++ {
		lower[c] = byte(c)
	}
	for c := 'a'; c <= 'z'; c++ {
		lower[c], lower[c-'a'+'A'] = byte(c), byte(c)
	}
	return lower
}()

func (r *reader) letter(c byte) {
	if r.runes++; r.runes <= longestWord {
		r.word = append(r.word, c)
	}
}

// end takes up the word that was read, if there is one.
func (r *reader) end(in part) {
	if r.runes > 0 && r.runes <= longestWord && r.read < mostWords {
		r.count(in)
	}
	r.word, r.runes = r.word[:0], 0
}

func (r *reader) count(in part) {
	r.read++
	at := r.place(r.word)
	if number := r.table[at]; number > 0 {
		r.words[number-1].in[in]++ // mostWords is less than it can count
		return
	}
	w := counted{
		begin: uint32(len(r.letters)),               //nolint:gosec // the number and length of words is limited
		end:   uint32(len(r.letters) + len(r.word)), //nolint:gosec // as above
	}
	w.in[in] = 1
	r.letters, r.words = append(r.letters, r.word...), append(r.words, w)
	r.table[at] = int32(len(r.words)) //nolint:gosec // mostWords
	if 2*len(r.words) > len(r.table) {
		r.table = make([]int32, 4*len(r.table))
		for i, w := range r.words {
			r.table[r.place(r.letters[w.begin:w.end])] = int32(i + 1) //nolint:gosec // as above
		}
	}
}

// place returns the index of a word in the table, or the index to insert it at.
func (r *reader) place(word []byte) uint64 {
	last := uint64(len(r.table) - 1) //nolint:gosec // a length
	at := maphash.Bytes(seed, word) & last
	for ; r.table[at] > 0; at = (at + 1) & last {
		if w := r.words[r.table[at]-1]; bytes.Equal(r.letters[w.begin:w.end], word) {
			break
		}
	}
	return at
}

// partsWords reports whether a character beyond ASCII parts words. An invalid character, as in a text that was cut,
// does.
func partsWords(r rune) bool {
	if r < utf8.RuneSelf {
		return lowered[r] == 0
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
		if !closed { // no tag, and neither is the rest
			plain.WriteString(strings.ReplaceAll(rest, "<", " "))
			return plain.String()
		}
		text = after
	}
}

// vocabulary are words, each once. The zero value is ready to use.
type vocabulary struct {
	words   []string
	numbers map[string]int32
}

// word is one of a text: its number in the vocabulary, and its counts by part.
type word struct {
	number int32
	in     counts
}

// add takes up the words of a text, and appends them.
func (v *vocabulary) add(to []word, t text) []word {
	if v.numbers == nil {
		v.numbers = map[string]int32{}
	}
	for _, w := range t.words {
		letters := t.letters[w.begin:w.end]
		number, known := v.numbers[letters]
		if !known {
			number = int32(len(v.words)) //nolint:gosec // batches have fewer
			v.words, v.numbers[letters] = append(v.words, letters), number
		}
		to = append(to, word{number, w.in})
	}
	return to
}
