package posts

import (
	"strings"
	"time"

	"carillon/command/collect/extract/timing"
)

// shortMonths are abbreviations, besides the whole names in package timing. Names cut at any letter, as timing reads
// them, are not enough here: in "10 out of 20", "out" is not outubro.
var shortMonths = numbered(
	"jan jän jänn janv ene gen", "feb febr fév févr fev", "mar mär mrz mrt", "apr avr abr", "mai may mag maj", "jun giu",
	"jul juil lug", "aug ago aoû", "sep sept set sett", "oct okt ott", "nov", "dec dez déc dic dich dicbre des")

// needsCapital are names of months that are other words in small letters.
var needsCapital = wordSet("may march mar set des ago out")

// englishMonths may precede their day.
var englishMonths = wordSet(`january february march april may june july august september october november december
	jan feb mar apr jun jul aug sep sept oct nov dec`)

// weekdays has the abbreviations from Sunday on, in the languages of package timing.
var weekdays = func() map[string]int {
	all := numbered(
		"sun so dim dom søn sön zo", "mon mo lun man mån ma seg", "tue tues di mar tir tis dinsdag ter",
		"wed weds mi mer mié mie ons wo qua", "thu thur thurs do jeu jue gio tor tors qui", "fri fr ven vie vr fre sex",
		"sat sa sam sáb sab zat za lør lör")
	for i, forms := range []string{
		"sunday sonntag dimanche domingo domenica zondag søndag söndag",
		"monday montag lundi lunes lunedì lunedi maandag mandag måndag segunda",
		"tuesday dienstag mardi martes martedì martedi dinsdag tirsdag tisdag terça",
		"wednesday mittwoch mercredi miércoles miercoles mercoledì mercoledi woensdag onsdag quarta",
		"thursday donnerstag jeudi jueves giovedì giovedi donderdag torsdag quinta",
		"friday freitag vendredi viernes venerdì venerdi vrijdag fredag sexta",
		"saturday samstag sonnabend samedi sábado sabado sabato zaterdag lørdag lördag",
	} {
		for _, form := range strings.Fields(forms) {
			all[form] = i + 1
			wholeWeekdays[form] = true
		}
	}
	for i, sign := range []rune("日月火水木金土") {
		all[string(sign)] = i + 1
	}
	return all
}()

// wholeWeekdays need no date beside them.
var wholeWeekdays = map[string]bool{}

func numbered(lists ...string) map[string]int {
	all := map[string]int{}
	for i, list := range lists {
		for _, word := range strings.Fields(list) {
			all[word] = i + 1
		}
	}
	return all
}

// month returns the month of a name, 0 for another word.
func month(word string) time.Month {
	if n := shortMonths[word]; n > 0 {
		return time.Month(n)
	}
	m, _ := timing.Month(word)
	return m
}
