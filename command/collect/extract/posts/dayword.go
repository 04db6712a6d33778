package posts

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// dayWords are the tokens of words relative to the time of a post, with the number of days after it.
var dayWords = func() (all []dayWord) {
	for ahead, list := range []string{
		"today|tonight|tonite|this evening|this afternoon|heute abend|heute nachmittag|heute|aujourd ' hui|aujourd ’ hui" +
			"|ce soir|cet après - midi|hoy|esta noche|esta tarde|oggi|stasera|questa sera|" +
			"hoje|hoje à noite|vandaag|vanavond|vanmiddag|i dag|i aften|i kveld|idag|ikväll|i kväll",
		"tomorrow|tomorrow evening|tomorrow night|morgen abend|morgen|demain|demain soir|mañana|mañana por la noche|domani" +
			"|domani sera|amanhã|morgenavond|i morgen|i morgen aften|imorgon|i morgon",
	} {
		for phrase := range strings.SplitSeq(list, "|") {
			all = append(all, dayWord{strings.Fields(phrase), ahead})
		}
	}
	slices.SortStableFunc(all, func(a, b dayWord) int { return len(b.words) - len(a.words) })
	return all
}()

// dateStarts are the words that dates begin with.
var dateStarts = func() map[string]bool {
	all := maps.Clone(englishMonths)
	for name := range weekdays {
		all[name] = true
	}
	for _, w := range dayWords {
		all[w.words[0]] = true
	}
	return all
}()

type dayWord struct {
	words []string
	ahead int
}

var (
	// notTomorrow are words before "morgen" and "mañana" that make them mornings.
	notTomorrow = wordSet("guten am jeden der la buenos goede god")
	// thisWords precede the next day with a name; after anyWords the day is uncertain.
	thisWords = wordSet("this coming diesen diesem dieser kommenden kommender ce este esta questo questa neste nesta " +
		"deze denne")
	anyWords = wordSet(`every each any most all last next first second third jeden jede alle letzten letzte letzter ` +
		`vergangenen nächsten nächste nächster
		tous toutes chaque dernier todos todas cada los pasado último próximo tutti tutte ogni scorso ultimo prossimo hver ` +
		`elke iedere vorige afgelopen
		varje förra volgende próxima black good ash bank shrove cyber super`)
	afterAny = wordSet("dernier prochain passé pasado que scorso prossimo passado seguinte")
)

// namedDay reads "tonight" or "this Saturday" at a token.
func (r *reader) namedDay(i int) (date, bool) {
	for _, w := range dayWords {
		if r.at(i).lower != w.words[0] || !r.follows(i, w.words) {
			continue
		}
		if r.at(i-1).is(notTomorrow) && r.sameLine(i, i-1) && w.ahead == 1 {
			return date{}, false
		}
		d := date{
			from:   i,
			to:     i + len(w.words),
			days:   []time.Time{r.today.AddDate(0, 0, w.ahead)},
			byName: byDayWord,
		}
		j := d.to
		if s := r.at(j).lower; s == "," || s == "(" {
			j++
		}
		if r.at(j).isWord() && wholeWeekdays[r.at(j).lower] && r.sameLine(i, j) { // "tomorrow, Friday"
			if d.to = j + 1; weekdays[r.at(j).lower]-1 != int(d.days[0].Weekday()) {
				d.wrong = wrongWeekday
			}
		}
		return d, true
	}
	if !wholeWeekdays[r.at(i).lower] {
		return date{}, false
	}
	before, after := r.at(i-1), r.at(i+1)
	from := i
	if before.is(thisWords) && r.sameLine(i, i-1) {
		from--
	}
	to := i + 1
	if after.lower == "-" && r.at(i+2).lower == "feira" {
		to = i + 3
	}
	d := date{from: from, to: to, byName: byWeekday}
	ahead := (weekdays[r.at(i).lower] - 1 - int(r.today.Weekday()) + 7) % 7
	d.days = []time.Time{r.today.AddDate(0, 0, ahead)}
	sameLine := r.sameLine(i, i-1)
	switch {
	case sameLine && before.is(anyWords) || r.sameLine(i, i+1) && after.is(afterAny) || sameLine && (before.lower == "i" ||
		before.lower == "los") && r.at(i-2).isWord():
		d.wrong = "it is the name of no certain day"
	case r.betweenWeekdays(i):
		d.wrong = "it is one of several days of the week"
	}
	return d, true
}

func (r *reader) follows(i int, words []string) bool {
	for k, word := range words {
		if r.at(i+k).lower != word || !r.sameLine(i, i+k) {
			return false
		}
	}
	return true
}

// betweenWeekdays reports whether the token is in a range or list of weekdays, such as "Monday to Friday", "Di–So" or
// "Tuesdays, Thursdays", which repeats weekly.
func (r *reader) betweenWeekdays(i int) bool {
	other := func(sign, name int) bool {
		t := r.at(sign)
		return (t.is(rangeSigns) || t.is(listSigns)) && r.sameLine(i, name) && weekdays[r.at(name).lower] > 0
	}
	return other(i+1, i+2) || other(i-1, i-2) || other(i+1, i+3) && r.at(i+2).is(articles)
}
