package posts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon/command/collect/identity"
)

// context is the text around a date.
type context struct {
	// sentence has the words of the sentence between two spaces.
	sentence string
	// otherTimes marks times of no event.
	otherTimes bool
	// event and venue are its words of these lexicons, others those of each of otherSubjects; "" if it has none.
	event, venue string
	others       []string
}

// padded returns the words for [lexicon.find].
func padded(text string) string { return " " + identity.Words(text) + " " }

// minWords is the number of words that a sentence needs to describe its date.
const minWords = 3

// contextOf returns the context of a token: its sentence and, if that has too few words, the line before and the first
// of the post.
func (r *reader) contextOf(i int) context {
	n := r.at(i).sentence
	if known, ok := r.contexts[n]; ok {
		return known
	}
	if r.whole == "" {
		r.whole = padded(r.text.shown)
		if word := listWords.find(padded(r.post.About)); r.event == nil && word != "" {
			r.event = &word
		}
	}
	from, to := r.sentence(n)
	own := 0
	for j := from; j < to; j++ {
		if r.at(j).isWord() && !r.inDate(j) && len([]rune(r.at(j).lower)) > 2 {
			own++
		}
	}
	text := r.text.between(r.words, from, to)
	if own < minWords {
		if before := r.sentenceText(n - 1); before != "" {
			text = before + " " + text
		}
		if n > 1 {
			text = r.sentenceText(0) + " " + text
		}
	}
	c := context{sentence: padded(text)}
	c.otherTimes = otherTimes.find(c.sentence) != ""
	c.event, c.venue = eventWords.find(c.sentence), venueWords.find(c.sentence)
	for _, s := range otherSubjects {
		c.others = append(c.others, s.words.find(c.sentence))
	}
	if !r.budget.Work(lexiconSize * (1 + len(c.sentence)/512)) {
		return c
	}
	r.contexts[n] = c
	return c
}

// sentence returns the tokens of a sentence.
func (r *reader) sentence(n int) (from, to int) {
	if n < 0 {
		return 0, 0
	}
	from, _ = slices.BinarySearchFunc(r.words, n, func(t token, n int) int { return t.sentence - n })
	to, _ = slices.BinarySearchFunc(r.words, n+1, func(t token, n int) int { return t.sentence - n })
	return from, to
}

func (r *reader) sentenceText(n int) string {
	from, to := r.sentence(n)
	return r.text.between(r.words, from, to)
}

func (r *reader) inDate(i int) bool {
	return slices.ContainsFunc(r.every, func(d date) bool { return d.from <= i && i < d.to })
}

// inPost finds a phrase anywhere in the post, and remembers the result.
func (r *reader) inPost(l lexicon, found **string) string {
	if *found == nil {
		word := l.find(r.whole)
		*found = &word
	}
	return **found
}

// startedBefore is the time after its start in which an event is still announced.
const startedBefore = 2 * time.Hour

// lexiconSize is the approximate number of phrases.
const lexiconSize = 1500

// needed is the minimum weight of an event, see [reader.weigh].
const needed, neededAlone = 2, 4

// selectDates keeps the dates of events.
func (r *reader) selectDates() {
	all := r.dates
	stated := false
	var kept []date
	for _, d := range all {
		if d.byName != byDate {
			continue
		}
		if r.keep(&d) {
			kept = append(kept, d)
		}
		stated = stated || d.wrong == ""
	}
	for _, d := range all {
		switch {
		case d.byName == byDate:
		case len(kept) > 0 || stated && d.byName == byWeekday:
			// The date is repeated, or belongs to another subject.
		case r.keep(&d):
			kept = append(kept, d)
		}
	}
	slices.SortStableFunc(kept, func(a, b date) int { return a.from - b.from })
	r.dates = kept
}

// keep reports whether a date is an event's, and notes the reason.
func (r *reader) keep(d *date) bool {
	if !r.budget.Work(100 + 10*len(r.clocks)) {
		return false
	}
	if d.wrong == "" {
		d.wrong = r.limit(*d)
	}
	if d.wrong == "" {
		d.wrong = r.weigh(d, r.contextOf(d.from))
	}
	if d.wrong != "" {
		r.pass(*d, d.wrong)
	}
	return d.wrong == ""
}

// limit returns the word that makes a date a mere limit: "until 5 December", "from 1 December".
func (r *reader) limit(d date) string {
	from := d.from
	var before []string
	for j := from - 1; j >= 0 && j >= from-5 && r.at(j).line == r.at(from).line; j-- {
		if t := r.at(j); t.isWord() {
			before = append([]string{t.lower}, before...)
		} else if t.lower != "'" && t.lower != "’" && t.lower != "/" {
			break
		}
	}
	if d.last.IsZero() || len(d.days) > 1 {
		words := " " + strings.Join(before, " ") + " "
		ends := func(needle string) bool { return strings.HasSuffix(words, needle) }
		if i := slices.IndexFunc(untilWords, ends); i >= 0 {
			return fmt.Sprintf("%q bounds it, it is no day of an event", strings.TrimSpace(untilWords[i]))
		}
		if i := slices.IndexFunc(sinceWords, ends); i >= 0 {
			return fmt.Sprintf("%q says since when something holds", strings.TrimSpace(sinceWords[i]))
		}
	}
	return ""
}

// IsList reports whether a heading is that of a list of events.
func IsList(heading string) bool {
	return listWords.find(padded(heading)) != ""
}

// weigh sums up the signs for an event and against it.
func (r *reader) weigh(d *date, around context) string {
	if r.post.Certain {
		return ""
	}
	weight := 0
	say := func(n int, what string) {
		weight += n
		d.reasons = append(d.reasons, what)
	}
	at := r.clockOf(*d)
	if at != nil && !at.hasEnd && len(d.days) == 1 && d.last.IsZero() &&
		r.wall.After(d.days[0].Add(at.start+startedBefore)) {
		return isPast
	}
	if at != nil {
		say(2, "a time")
	}
	if d.weekday {
		say(1, "a weekday")
	}
	if d.year {
		say(1, "a year")
	}
	if !d.last.IsZero() || len(d.days) > 1 {
		say(1, "several days")
	}
	when := weight
	named, speaks := around.event != "", r.inPost(eventWords, &r.event)
	if r.post.About != "" && at == nil && !named && speaks == "" {
		return "it is a date in a list that does not speak of events"
	}
	if named {
		say(2, fmt.Sprintf("%q", around.event))
	} else if speaks != "" {
		say(1, fmt.Sprintf("%q", speaks))
	}
	if word := r.inPost(inviting, &r.invitation); word != "" {
		say(1, fmt.Sprintf("%q", word))
	}
	if at != nil && at.label == isStart {
		say(1, "a time that it starts")
	} else if at != nil && r.text.priced {
		say(1, "a price")
	}
	for j := d.from - 1; j >= d.from-2 && j >= 0; j-- {
		if r.at(j).is(dateMarks) && r.sameLine(j, d.from) {
			say(2, "a mark before it")
			break
		}
	}
	if around.venue != "" {
		say(1, fmt.Sprintf("%q", around.venue))
	}
	if strings.Contains(r.text.shown, "📍") {
		say(1, "a place")
	}
	for i, s := range otherSubjects {
		if word := around.others[i]; word != "" {
			if weight -= s.weight; weight < needed {
				return fmt.Sprintf("%s: %q", s.why, word)
			}
			d.reasons = append(d.reasons, fmt.Sprintf("though %q", word))
		}
	}
	switch {
	case d.byName == byWeekday && !r.at(d.from).is(thisWords) && !named:
		return "a day by name and a time are not enough"
	case d.byName != byDate && at == nil && (d.byName != byDayWord || weight <= needed):
		return "it is a day by name and without a time"
	case weight == when && weight < neededAlone:
		return "it is a date, and nothing beside it speaks of an event"
	case weight < needed:
		return "nothing beside it speaks of an event"
	}
	return ""
}
