package match

import (
	"hash/fnv"
	"slices"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect/identity"
)

// Kind is the kind of a mark. The values are stored.
type Kind int16

// Kinds of marks.
const (
	Key Kind = iota
	Place
	Title
)

// Mark is shared by happenings that are worth comparing: they have a key in common, are at one place on one day, or
// have a word of their titles in common. Without a key, two are compared if they also begin together, or share a place
// and a title.
type Mark struct {
	Kind Kind
	Day  string // local; "" for a key
	Of   string
	At   time.Time // zero for a key or if only the day is known
}

// Hash returns a hash of the mark. It is stored.
func (m Mark) Hash() int64 {
	h := fnv.New64a()
	if m.Kind == Key {
		_, _ = h.Write([]byte("key " + m.Of))
	} else {
		_, _ = h.Write([]byte(m.Day + "|" + m.Of))
	}
	return int64(h.Sum64()) //nolint:gosec // any number will do
}

// Marks returns the marks of a happening.
func (s Subject) Marks() []Mark {
	words := s.title.without(s.place).marks()
	places := s.place.marks()
	marks := make([]Mark, 0, len(s.keys)+len(s.starts)*(len(words)+len(places)))
	for _, key := range s.keys {
		marks = append(marks, Mark{Kind: Key, Of: key})
	}
	for i, at := range s.starts {
		if slices.ContainsFunc(s.starts[:i], at.equal) {
			continue
		}
		m := Mark{Kind: Place, Day: at.day, At: at.at}
		if at.allDay {
			m.At = time.Time{}
		}
		for _, m.Of = range places {
			marks = append(marks, m)
		}
		m.Kind = Title
		for _, word := range words {
			m.Of = "t:" + word
			marks = append(marks, m)
		}
	}
	return marks
}

func (s start) equal(o start) bool { return s.at.Equal(o.at) && s.allDay == o.allDay && s.day == o.day }

const (
	// ownWords is the number of words of a title by which other pages find a happening, soughtWords of those by which it
	// finds others.
	ownWords    = 2
	soughtWords = 8
)

// TitleMarks returns the marks by which pages of one source show a happening: its title, and the first words of that,
// with the day of its start or that it is a series. It is looked for by more words, and a single date among series,
// too.
func TitleMarks(d happening.Details) (own, sought []string) {
	plain := identity.Title(d.Title)
	if plain == "" || len(d.Instances) == 0 || len(d.Instances[0].Occurrences) == 0 {
		return nil, nil
	}
	const series = "series"
	first := d.Instances[0].Occurrences[0]
	days := []string{first.Start.UTC().Format(time.DateOnly), first.Start.In(zoneOf(d)).Format(time.DateOnly)}
	switch {
	case len(d.Instances) > 1:
		days = []string{series}
	case first.AllDay: // else another page may name no zone
		days = days[1:]
	}
	own = []string{"programme:" + plain + "|" + days[0]}
	sought = []string{own[0], "programme:" + plain + "|" + series}
	days = slices.Compact(days)
	for i, word := range titleWords(plain) {
		for _, day := range days {
			if sought = append(sought, "title:"+day+"|"+word); i < ownWords {
				own = append(own, "title:"+day+"|"+word)
			}
		}
		if len(d.Instances) == 1 {
			sought = append(sought, "title:"+series+"|"+word)
		}
	}
	return own, sought
}

// titleWords returns the first words of a title that identify the event.
func titleWords(plain string) (all []string) {
	for _, word := range split(plain) {
		if fillers[word] || isDate(word) || isClock(word) || number(word) {
			continue
		}
		for _, c := range concepts(word) {
			if generic[c] == 0 && !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all[:min(len(all), soughtWords)]
}
