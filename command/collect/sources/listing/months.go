package listing

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/html"

	"carillon/command/collect"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/identity"
)

// month is a page of a listing that shows a month.
type month struct {
	url   *url.URL
	first time.Time
}

// monthOf splits the address of a month into the part that all months share, and its first day.
func monthOf(u *url.URL) (list string, first time.Time, ok bool) {
	from, to, ok := days(u)
	if !ok || from.Day() != 1 && to.Sub(from) < 28*24*time.Hour {
		return "", time.Time{}, false
	}
	bare := *u
	bare.Fragment, bare.RawFragment = "", ""
	if at := datePath.FindStringSubmatchIndex(u.Path); at != nil {
		bare.Path, bare.RawPath = u.Path[:at[2]], ""
		return identity.Canonical(&bare), from, true
	}
	var kept []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if !dateValue.MatchString(value) && !monthNames[strings.ToLower(name)] {
			kept = append(kept, pair)
		}
	}
	bare.RawQuery = strings.Join(kept, "&")
	return identity.Canonical(&bare), from, true
}

// monthNames are the parameters with a year or a month.
var monthNames = map[string]bool{
	"year": true, "yr": true, "y": true, "jahr": true, "month": true, "mon": true, "m": true, "monat": true,
}

// nextMonth matches the text of a link to the month after the current page's.
//
//nolint:misspell // words of other languages
var nextMonth = regexp.MustCompile(`(?i)\b(?:next|following) month\b|nächste[rn]? monat|\bfolgemonat|mois (?:suivant` +
	`|prochain)|mese successivo|` +
	`prossimo mese|mes siguiente|próximo m[eê]s|mês seguinte|volgende maand|næste måned|neste måned|nästa månad` +
	`|seuraava kuukausi|` +
	`następny miesiąc|další měsíc|следующий месяц`)

// thisMonth returns the month of the page, the current one if its address names none.
func (l *look) thisMonth() time.Time {
	if _, first, ok := monthOf(l.html.URL); ok {
		return first
	}
	return l.window.From.AddDate(0, 1, 0)
}

// month adds a link to a later month of the listing, and reports whether it is one: its address differs from the
// listing's by the month only, or its label says so.
func (l *look) month(u *url.URL, n *html.Node) bool {
	list, first, dated := monthOf(u)
	called := nextMonth.MatchString(links.Label(n))
	switch {
	case !called && (!dated || !l.hasMonths(list)), l.isHere(u):
		return false
	case !dated:
		l.pages.Leave(u)
		if l.next == nil {
			l.next, l.unnamed = u, true
		}
	case l.isBeyond(u):
		l.beyond++
	case !first.After(l.thisMonth()):
		return false
	default:
		l.pages.Leave(u)
		l.months = append(l.months, month{u, first})
	}
	return true
}

// hasMonths reports whether addresses of months belong to the listing: they are below it, or beside the month of the
// page.
func (l *look) hasMonths(list string) bool {
	if here, _, ok := monthOf(l.html.URL); ok && here == list {
		return true
	}
	for _, own := range l.lists {
		rest, below := strings.CutPrefix(list, own)
		if below && (rest == "" || rest[0] == '/' && strings.Count(rest, "/") == 1 || strings.HasPrefix(rest, "?")) {
			return true
		}
	}
	return false
}

// monthly reports whether months follow the page.
func (l *look) monthly() bool { return l.at.way == byMonth || l.unnamed || len(l.months) > 0 }

// maxMonths limits the months of a listing whose addresses do not name them.
func (l *look) maxMonths() int {
	n := 1
	for at := l.window.From.AddDate(0, 1, 0); at.Before(l.window.To); at = at.AddDate(0, 1, 0) {
		n++
	}
	return n
}

// undated returns the links except those of days and months, which differ between months.
func undated(all []collect.Link) []collect.Link {
	var kept []collect.Link
	for _, link := range all {
		u, err := url.Parse(link.Address)
		if err != nil {
			continue
		}
		if _, _, dated := days(u); !dated {
			kept = append(kept, link)
		}
	}
	return kept
}

// followMonths links the later months of the listing.
func (l *look) followMonths(set *links.Set, then position) {
	for _, m := range l.months {
		then.way = byMonth
		set.AddURL(m.url, collect.Link{Role: then.role(), List: true})
	}
}
