package items

import (
	"slices"
	"strconv"
)

// mostPlaces is how many places of a word a tsvector has room for: the first ones.
const mostPlaces = 256

// tongue is a vocabulary in a language.
type tongue struct {
	stems   []string       // by number of stem
	numbers map[string]int // of stems
	ofWord  []int          // number of the stem by number of the word

	found []int // of the item at hand; see shared
	in    []counts
	text  []byte
}

func newTongue(stems []string) *tongue {
	t := &tongue{numbers: make(map[string]int, len(stems)), ofWord: make([]int, len(stems))}
	for word, stem := range stems {
		number, known := t.numbers[stem]
		if !known {
			number = len(t.stems)
			t.stems, t.numbers[stem] = append(t.stems, stem), number
		}
		t.ofWord[word] = number
	}
	return t
}

// stemSet has a bit for each stem.
type stemSet []uint64

func (s stemSet) has(number int) bool { return s[number/64]&(1<<(number%64)) != 0 }

// set has those of some stems that are in the vocabulary.
func (t *tongue) set(lists ...[]string) stemSet {
	s := make(stemSet, len(t.stems)/64+1)
	for _, stems := range lists {
		for _, stem := range stems {
			if number, known := t.numbers[stem]; known {
				s[number/64] |= 1 << (number % 64)
			}
		}
	}
	return s
}

// shared are the words of an item that are in a set, as a tsvector: each with its weights. The places are counted for
// each word by itself, because a rank for any of some words doesn't depend on them; so items that have the same words
// as often and in the same parts have the same tsvector. It is valid until the next call.
func (t *tongue) shared(words []word, in stemSet) []byte {
	t.found, t.in, t.text = t.found[:0], t.in[:0], t.text[:0]
	for _, one := range words {
		stem := t.ofWord[one.number]
		if !in.has(stem) {
			continue
		}
		at := slices.Index(t.found, stem)
		if at < 0 {
			at = len(t.found)
			t.found, t.in = append(t.found, stem), append(t.in, counts{})
		}
		for part, count := range one.in {
			t.in[at][part] += count // of all words of an item there are fewer than it can count
		}
	}
	for i, stem := range t.found {
		t.text = append(append(append(t.text, ' '), t.stems[stem]...), ':')
		place := 0
		for part, count := range t.in[i] {
			for ; count > 0 && place < mostPlaces; count-- {
				if place++; place > 1 {
					t.text = append(t.text, ',')
				}
				t.text = append(strconv.AppendInt(t.text, int64(place), 10), byte('A'+part))
			}
		}
	}
	return t.text
}
