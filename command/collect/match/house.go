package match

import (
	"slices"
	"strings"
)

// underOneNumber compares two that have one street and number, and names that differ. They are two houses if the names
// have no telling word in common. A mere part may be one of the house that the other names.
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

// named reports whether a telling word of a name is one of the other's name, or of its address, or stands for it.
func (p place) named(o place) bool {
	all := slices.Concat(o.venue, o.room, o.where)
	return slices.ContainsFunc(telling(p.venue), func(word string) bool {
		return initials(word, o.venue) || slices.ContainsFunc(all, func(other string) bool {
			return wordsEqual(word, other) || stem(word) != "" && stem(word) == stem(other)
		})
	})
}

// isIn reports whether the address names the other house, all words of it.
func (p place) isIn(o place) bool {
	name := slices.Concat(o.venue, o.room)
	return len(name) > 1 && !slices.ContainsFunc(name, func(word string) bool { return !slices.Contains(p.where, word) })
}

// endings are what names of houses end in.
var endings = strings.Fields("haus saal halle hof heim zentrum")

// stem is a name without what kind of house it is: of "Kursaal" and "Kurhaus" it is the same. It is "" where nothing
// is left.
func stem(word string) string {
	const telling = 3 // letters
	for _, ending := range endings {
		if rest, ok := strings.CutSuffix(word, ending); ok && len(rest) >= telling {
			return rest
		}
	}
	return ""
}

// initials reports whether a word stands for a name: it is consonants that are in it in order, as those of a compound.
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

// soleHouses are kinds of houses of which there is one under a number, by how their names end. Those of one line are
// one.
var soleHouses = [][]string{
	{"#theatre", "#opera", "theater", "oper"}, {"#museum", "museum"}, {"#church", "#cathedral", "kirche"},
	{"#castle", "schloss", "burg"},
	{"#stadium", "stadion"}, {"#school", "schule"}, {"#hall", "rathaus"},
}

// oneKind reports whether two names say of their houses that they are of one such kind.
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
