package match

import (
	"slices"
	"strings"
)

// underOneNumber compares two places with the same street and number but different names. They are two houses if no
// distinctive word of the names is the same. A mere room may be part of the house that the other names.
func (p place) underOneNumber(o place) placeVerdict {
	switch {
	case p.parts && o.parts:
		if !roomsAgree(p.venue, o.venue) {
			return otherRoom
		}
	case p.parts || o.parts || p.named(o) || o.named(p) || p.isIn(o) || o.isIn(p) || p.oneKind(o):
	default:
		return otherPlace
	}
	return samePlace
}

// named reports whether a distinctive word of a name is in the other's name or address, or stands for it.
func (p place) named(o place) bool {
	all := slices.Concat(o.venue, o.room, o.where)
	return slices.ContainsFunc(identifying(p.venue), func(word string) bool {
		return initials(word, o.venue) || slices.ContainsFunc(all, func(other string) bool {
			return wordsEqual(word, other) || stem(word) != "" && stem(word) == stem(other)
		})
	})
}

// isIn reports whether the address has all words of the other house's name.
func (p place) isIn(o place) bool {
	name := slices.Concat(o.venue, o.room)
	return len(name) > 1 && !slices.ContainsFunc(name, func(word string) bool { return !slices.Contains(p.where, word) })
}

// endings are the endings of names of houses.
var endings = strings.Fields("haus saal halle hof heim zentrum")

// stem returns a name without the kind of its house: "Kursaal" and "Kurhaus" have the same stem. It is "" if nothing
// is left.
func stem(word string) string {
	const minLetters = 3 // letters
	for _, ending := range endings {
		if rest, ok := strings.CutSuffix(word, ending); ok && len(rest) >= minLetters {
			return rest
		}
	}
	return ""
}

// initials reports whether a word abbreviates a name: its consonants are in the name in order, as in compounds.
func initials(word string, name []string) bool {
	const least, most = 3, 5 // letters
	rest := strings.Join(name, "")
	if len(word) < least || len(word) > most || len(rest) < 3*len(word) || rest[0] != word[0] ||
		strings.ContainsAny(word, "aeiou") {
		return false
	}
	for i := range len(word) {
		at := strings.IndexByte(rest, word[i])
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// soleHouses are kinds of houses, by the endings of their names, that occur once under a number. Those of one line are
// one kind.
var soleHouses = [][]string{
	{"#theatre", "#opera", "theater", "oper"}, {"#museum", "museum"}, {"#church", "#cathedral", "kirche"},
	{"#castle", "schloss", "burg"},
	{"#stadium", "stadion"}, {"#school", "schule"}, {"#hall", "rathaus"},
}

// oneKind reports whether both names are of one such kind.
func (p place) oneKind(o place) bool {
	return slices.ContainsFunc(soleHouses, func(kind []string) bool {
		is := func(word string) bool {
			return slices.ContainsFunc(kind, func(k string) bool {
				return word == k || !strings.HasPrefix(k, "#") && strings.HasSuffix(word, k)
			})
		}
		return slices.ContainsFunc(p.venue, is) && slices.ContainsFunc(o.venue, is)
	})
}
