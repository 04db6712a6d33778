package timing

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// eras are the years before the first of an era.
var eras = map[string]int{"令和": 2018, "民國": 1911, "民国": 1911}

// plainDigits replaces digits of other scripts by ASCII's, and years of an era by those of the common one.
func plainDigits(text string) string {
	for i := 0; text[i:] == "" || text[i] < utf8.RuneSelf; i++ {
		if i == len(text) {
			return text
		}
	}
	text = strings.Map(func(r rune) rune {
		for _, digits := range unicode.Nd.R16 { // ten of each script, in order
			if low := rune(digits.Lo); r >= low && r <= rune(digits.Hi) {
				return '0' + (r-low)%10
			}
		}
		return r
	}, text)
	for era, before := range eras {
		rest, ok := strings.CutPrefix(text, era)
		if year, rest, isYear := strings.Cut(strings.TrimSpace(rest), "年"); ok && isYear {
			if year = strings.TrimSpace(year); year == "元" {
				year = "1"
			}
			return fmt.Sprintf("%d年%s", before+number(year), rest)
		}
	}
	return text
}

const (
	// buddhist is the difference of the Buddhist era, as Thailand counts, to the common one.
	buddhist = 543
	// The Persian year began on a day of March.
	persianYear = 1404
)

var persianNewYear = time.Date(2025, 3, 21, 0, 0, 0, 0, time.UTC)

// gregorian returns a date of the Gregorian calendar. Sites that format dates by their locale write years of the
// Buddhist era and of the Persian calendar.
func gregorian(year, month, day int) (y, m, d int) {
	switch {
	case year >= 2443 && year <= 2700:
		return year - buddhist, month, day
	case year < 1390 || year > 1430 || month < 1 || month > 12 || day < 1 || day > 31:
		return year, month, day
	}
	days := 31*min(month-1, 6) + 30*max(month-7, 0) + day - 1
	for at := persianYear; at < year; at++ {
		days += persianDays(at)
	}
	for at := persianYear - 1; at >= year; at-- {
		days -= persianDays(at)
	}
	t := persianNewYear.AddDate(0, 0, days)
	return t.Year(), int(t.Month()), t.Day()
}

// persianDays returns the length of a Persian year of these centuries.
func persianDays(year int) int {
	switch year % 33 {
	case 1, 5, 9, 13, 17, 22, 26, 30:
		return 366
	}
	return 365
}
