package timing

import (
	"strings"
	"time"
)

// months has the names of months by language, in order; strokes separate the forms of one month. A name that is cut
// after three or more letters counts as well.
//
//nolint:misspell // words of other languages
var months = []string{
	// English
	"january february march april may june july august september|sept october november december",
	// German
	"januar|jänner februar|feber märz|maerz|mrz april mai juni juli august september oktober november dezember",
	// French
	"janvier février|fevrier mars avril mai juin juillet août|aout septembre octobre novembre décembre|decembre",
	// Spanish
	"enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre",
	// Italian
	"gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
	// Portuguese
	"janeiro fevereiro março|marco abril maio junho julho agosto setembro outubro novembro dezembro",
	// Dutch
	"januari februari maart|mrt april mei juni juli augustus september oktober november december",
	// Danish
	"januar februar marts april maj juni juli august september oktober november december",
	// Swedish
	"januari februari mars april maj juni juli augusti september oktober november december",
	// Norwegian
	"januar februar mars april mai juni juli august september oktober november desember",
	// Finnish
	"tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta " +
		"marraskuuta joulukuuta",
	// Polish
	"stycznia|styczeń lutego|luty marca|marzec kwietnia|kwiecień maja|maj czerwca|czerwiec lipca|lipiec sierpnia" +
		"|sierpień września|wrzesień października|październik listopada|listopad grudnia|grudzień",
	// Czech
	"ledna|leden února|únor března|březen dubna|duben května|květen června|červen července|červenec srpna|srpen září " +
		"října|říjen listopadu|listopad prosince|prosinec",
}

// weekdays are the names of weekdays by language, from Sunday.
var weekdays = []string{
	"sunday monday tuesday wednesday thursday friday saturday",
	"sonntag|so montag|mo dienstag|di mittwoch|mi donnerstag|do freitag|fr samstag|sonnabend|sa",
	"dimanche lundi mardi mercredi jeudi vendredi samedi",
	"domingo lunes martes miércoles|miercoles jueves viernes sábado|sabado",
	"domenica lunedì|lunedi martedì|martedi mercoledì|mercoledi giovedì|giovedi venerdì|venerdi sabato",
	"domingo segunda-feira|segunda terça-feira|terça quarta-feira|quarta quinta-feira|quinta sexta-feira|sexta sábado",
	"zondag maandag dinsdag woensdag donderdag vrijdag zaterdag",
	"søndag mandag tirsdag onsdag torsdag fredag lørdag",
	"söndag måndag tisdag onsdag torsdag fredag lördag",
	"sunnuntai maanantai tiistai keskiviikko torstai perjantai lauantai",
	"niedziela poniedziałek wtorek środa czwartek piątek sobota",
	"neděle pondělí úterý středa čtvrtek pátek sobota",
}

// named maps words to their number in the lists; 0 for an unknown word.
type named map[string]int

// minCut is the minimum number of letters of a cut name.
const minCut = 3

// namesOf returns whole names, and cut ones with their meaning in the first language that has them.
func namesOf(languages []string) named {
	all := wholeNamesOf(languages)
	for _, language := range languages {
		cut := named{}
		for i, forms := range strings.Fields(language) {
			for form := range strings.SplitSeq(forms, "|") {
				runes := []rune(form)
				for n := minCut; n < len(runes); n++ {
					if begin := string(runes[:n]); cut[begin] == 0 {
						cut[begin] = i + 1
					} else if cut[begin] != i+1 {
						cut[begin] = -1 // juin and juillet
					}
				}
			}
		}
		for begin, number := range cut {
			if all[begin] == 0 && number > 0 {
				all[begin] = number
			}
		}
	}
	return all
}

var (
	monthNames   = namesOf(months)
	weekdayNames = namesOf(weekdays)
)

// monthNumber reads a month by its name in any language, or by its number; 0 for none.
func monthNumber(s string) int {
	if n := monthNames[strings.TrimSuffix(strings.ToLower(s), ".")]; n > 0 {
		return n
	}
	return number(s)
}

// weekday reads the name of a weekday in any language.
func weekday(word string) (time.Weekday, bool) {
	n := weekdayNames[strings.TrimSuffix(strings.ToLower(word), ".")]
	return time.Weekday(n - 1), n > 0
}

// beforeDates and beforeTimes are the words of all languages that precede a date, or a time after a date.
const (
	beforeDates = `(?:(?:den|der|am|le|el|il|lo|die|de|op|på|dne|dnia)\s+)?`
	beforeTimes = `(?i)^(?:[-–|]\s*)?(?:at|um|ab|à|a las|a la|alle ore|alle|ore|às|as|om|kl\.?|klo|godz\.?|o|v)\s+`
)

// Month reads the whole name of a month in any of the languages.
func Month(word string) (time.Month, bool) {
	n := wholeMonths[strings.ToLower(word)]
	return time.Month(n), n > 0
}

// WeekdayName reads the whole name of a weekday in any of the languages.
func WeekdayName(word string) (time.Weekday, bool) {
	n := wholeWeekdays[strings.ToLower(word)]
	return time.Weekday(n - 1), n > 0
}

var (
	wholeMonths   = wholeNamesOf(months)
	wholeWeekdays = wholeNamesOf(weekdays)
)

func wholeNamesOf(languages []string) named {
	all := named{}
	for _, language := range languages {
		for i, forms := range strings.Fields(language) {
			for form := range strings.SplitSeq(forms, "|") {
				all[form] = i + 1
			}
		}
	}
	return all
}
