package listing

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"carillon/command/collect/identity"
)

var (
	// numberPath matches a page's number in a path, as in "/events/page/2/".
	numberPath = regexp.MustCompile(`(?i)^(.*)/(?:page|pagina|página|seite|side|sida|sivu|strona|stranka|oldal` +
		`|sayfa)[/_-]?(\d{1,6})(/?|\.[a-z]{3,5})$`)
	// numberNames and offsetNames match parameters with the number of a page, or of its first entry. "p" is none of them:
	// mostly it numbers articles.
	numberNames = regexp.MustCompile(`(?i)^(?:page|paged|pg|pn|page_?(?:no|num|number)|current_?page|[a-z]+_page|pagina` +
		`|página|seite|side|sida|sivu|strona|stranka|oldal|sayfa)$`)
	offsetNames = regexp.MustCompile(`(?i)^(?:start|offset|skip|limitstart)$`)
	digits      = regexp.MustCompile(`^\d{1,6}$`)
)

// maxOffset limits the offset of the first entry of a page.
const maxOffset = 2000

// pageNumber splits the address of a page of a listing into the part that all its pages share, and the page's number.
// It is 0 for the first page, which has none. Some listings count from 0 and some from 1, so that "?page=1" may be the
// second page.
func pageNumber(u *url.URL) (list string, number int) {
	bare := *u
	bare.Fragment, bare.RawFragment = "", ""
	if m := numberPath.FindStringSubmatch(u.Path); m != nil {
		number, _ = strconv.Atoi(m[2])
		bare.Path, bare.RawPath = m[1]+m[3], ""
		if strings.Trim(m[3], "/") == "" {
			bare.Path = m[1] + "/"
		}
		if number <= 1 {
			number = 0
		}
	}
	pairs := strings.Split(u.RawQuery, "&")
	kept := pairs[:0:0]
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case number > 0 || !digits.MatchString(value):
			kept = append(kept, pair)
		case numberNames.MatchString(name):
			number, _ = strconv.Atoi(value)
		case offsetNames.MatchString(name):
			if number, _ = strconv.Atoi(value); number > maxOffset {
				number = maxPages + 1
			} else if number > 0 {
				number = min(2+number/(maxOffset/maxPages), maxPages)
			}
		default:
			kept = append(kept, pair)
		}
	}
	bare.RawQuery = strings.Join(kept, "&")
	return identity.Canonical(&bare), number
}

var (
	// datePath matches an address of nothing but a day or month, as in "/calendar/2026-12/" or "/events/2026/12/05".
	datePath  = regexp.MustCompile(`(?:^/?|(?:^|/)[A-Za-z]+/)((?:19|20|21)\d\d)[-/](\d{1,2})(?:[-/](\d{1,2}))?/?$`)
	dateValue = regexp.MustCompile(`^((?:19|20|21)\d\d)-?(\d{2})(?:-?(\d{2}))?$`)
)

// days returns the range of an address that names a day or a month.
func days(u *url.URL) (from, to time.Time, ok bool) {
	if m := datePath.FindStringSubmatch(u.Path); m != nil {
		return span(m[1], m[2], m[3])
	}
	var year, month string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if m := dateValue.FindStringSubmatch(value); m != nil {
			return span(m[1], m[2], m[3])
		}
		switch strings.ToLower(name) {
		case "year", "yr", "y", "jahr":
			year = value
		case "month", "mon", "m", "monat":
			month = value
		}
	}
	return span(year, month, "")
}

func span(year, month, day string) (from, to time.Time, ok bool) {
	y, err := strconv.Atoi(year)
	m, err2 := strconv.Atoi(month)
	if err != nil || err2 != nil || y < 1900 || y > 9999 || m < 1 || m > 12 {
		return from, to, false
	}
	if d, err := strconv.Atoi(day); err == nil && d >= 1 && d <= 31 {
		from = time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
		return from, from.AddDate(0, 0, 1), true
	}
	from = time.Date(y, time.Month(m), 1, 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 1, 0), true
}
