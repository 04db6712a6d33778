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

// shared are the words of an item that are in a set, as a tsvector: each with what it weighs wherever it is. The places
// are counted for each word by itself, because a rank for any of some words doesn't depend on them; so items that have the
// same words as often and in the same parts have the same tsvector.
func (t *tongue) shared(words []word, in stemSet) string {
	var found []int
	var weights [][]byte // of each found
	for _, one := range words {
		stem := t.ofWord[one.number]
		if !in.has(stem) {
			continue
		}
		at := slices.Index(found, stem)
		if at < 0 {
			at = len(found)
			found, weights = append(found, stem), append(weights, nil)
		}
		weights[at] = append(weights[at], one.weight)
	}
	var text []byte
	for i, stem := range found {
		text = append(append(append(text, ' '), t.stems[stem]...), ':')
		for place, weight := range weights[i][:min(len(weights[i]), mostPlaces)] {
			if place > 0 {
				text = append(text, ',')
			}
			text = append(strconv.AppendInt(text, int64(place+1), 10), weight)
		}
	}
	return string(text)
}
