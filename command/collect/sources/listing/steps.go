package listing

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect/crawl/links"
	"carillon/command/collect/identity"
)

// step is a link to another page of the listing as far as its words and its address say: its address differs from this
// page's by one parameter or one part of the path, which key names.
type step struct {
	url     *url.URL
	key     string
	number  int // its label, 0 for words
	next    bool
	content *[]*url.URL // the links that it belongs to if it is none
}

var (
	// nextWords match the whole label of a link to the next page.
	//
	//nolint:misspell // words of other languages
	nextWords = regexp.MustCompile(`(?i)^[\s›»→>▶⟩.]*(?:(?:p[aá]gin[ae] |page )?(?:next|older|more|load more|show more` +
		`|view more|weiter|vorwärts|nächste[rs]?|ältere|mehr(?: laden| anzeigen)?|weitere(?: laden| anzeigen)?` +
		`|suivante?s?|voir plus|` +
		`plus (?:de|d')|charger plus|siguientes?|próxim[oa]s?|ver más|cargar más|más|successiv[aoie]|prossim[aoie]|avanti|` +
		`carica altro|altri|seguintes?|ver mais|carregar mais|volgende|meer(?: laden)?|næste|neste|nästa|vis flere|` +
		`visa fler|seuraavat?|lisää|następn[aey]|dalej|więcej|další|ďalš[ie]|következő|tovább|următoarea|sonraki|` +
		`επόμεν[ηοα]|следующ(?:ая|ие|ий)|далее|показать ещё|вперёд|наступна|далі|次へ|次のページ|次|下一页|下一頁|下页|` +
		`다음|التالي|הבא)(?:[\s\d]*(?:pages?|items?|events?|results?|entries|posts|seiten?|einträge|termine|veranstaltungen|` +
		`pages? suivantes?|résultats|événements|página|eventos|eventi|pagina|sida|side|страница|события|dates)?)?)` +
		`[\s›»→>▶⟩.…]*$|^[›»→>▶⟩]{1,2}$`)
	// nextClass matches a class of such links.
	nextClass = regexp.MustCompile(`(?i)^(?:[a-z_-]*(?:pag(?:e|er|ing|ination|inator)|nav|posts|link|btn|button|item)` +
		`[a-z_]*[-_]+)?(?:next|older)(?:[-_]?(?:page|posts?(?:link)?|link|btn|button|items?))?$`)
	pagingClass = regexp.MustCompile(`(?i)(?:^|[\s_-])pag(?:e|er|ing|ination|inator)s?(?:$|[\s_-])`)
	dayNames    = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:day|date|datum|tag|jour|dia|día|giorno|dag|d|week|woche)` +
		`(?:$|[^a-z])`)
	stepPart = regexp.MustCompile(`^/?[a-z_-]{0,12}[/_=-]?\d{1,4}(?:/|\.[a-z]{3,5})?$`)
)

// isNext reports whether the words or the class of a link, or of the item of a list that holds it, name a next page.
func isNext(n *html.Node, label string) bool {
	if nextWords.MatchString(label) {
		return true
	}
	for _, n := range []*html.Node{n, n.Parent} {
		if n == nil || n.DataAtom != atom.Li && n.DataAtom != atom.A && n.DataAtom != atom.Button &&
			n.DataAtom != atom.Span {
			continue
		}
		if slices.ContainsFunc(strings.Fields(class(n)), nextClass.MatchString) {
			return true
		}
	}
	return false
}

func class(n *html.Node) string {
	for _, a := range n.Attr {
		if a.Key == "class" {
			return a.Val[:min(len(a.Val), maxClass)]
		}
	}
	return ""
}

// maxClass limits how much of a class is read, in bytes; maxStep the number of a page by its label.
const maxClass, maxStep = 500, 9999

// step keeps a link that may be one to another page of the listing, and reports whether it does.
func (l *look) step(u *url.URL, n *html.Node, content *[]*url.URL) bool {
	if u.Path != l.html.URL.Path && u.RawQuery != l.html.URL.RawQuery {
		return false
	}
	label := links.Label(n)
	number, err := strconv.Atoi(label)
	if err != nil || number < 1 || number > maxStep {
		number = 0
	}
	next := isNext(n, label)
	if number == 0 && !next {
		return false
	}
	key := stepKey(l.html.URL, u)
	if key == "" || !next && dayNames.MatchString(key) {
		return false
	}
	l.steps = append(l.steps, step{
		url:     u,
		key:     key,
		number:  number,
		next:    next,
		content: content,
	})
	return true
}

// stepKey returns the name of the only parameter in which an address differs from a page's, or "/" for a part of the
// path with a number; "" for other addresses.
func stepKey(from, to *url.URL) string {
	if from.Path != to.Path {
		return pathKey(from.Path, to.Path)
	}
	before, after := strings.Split(from.RawQuery, "&"), strings.Split(to.RawQuery, "&")
	lost := slices.DeleteFunc(slices.Clone(before), func(p string) bool { return p == "" || slices.Contains(after, p) })
	gained := slices.DeleteFunc(after, func(p string) bool { return p == "" || slices.Contains(before, p) })
	if len(gained) != 1 || len(lost) > 1 {
		return ""
	}
	name, value, _ := strings.Cut(gained[0], "=")
	if !strings.ContainsAny(value, "0123456789") || len(lost) == 1 && !strings.HasPrefix(lost[0], name+"=") {
		return ""
	}
	return name
}

// pathKey compares paths without their common beginning and end.
func pathKey(from, to string) string {
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	begin := 0
	for begin < min(len(from), len(to)) && from[begin] == to[begin] {
		begin++
	}
	for begin > 0 && isDigit(to[begin-1]) {
		begin--
	}
	end := 0
	for end < min(len(from), len(to))-begin && from[len(from)-1-end] == to[len(to)-1-end] &&
		!isDigit(to[len(to)-1-end]) {
		end++
	}
	was, is := from[begin:len(from)-end], to[begin:len(to)-end]
	if strings.TrimRight(was, "0123456789") != "" && was != "/" || !stepPart.MatchString(is) {
		return ""
	}
	return "/"
}

// takeSteps chooses the next page of the listing among the links that may be one: by its words, or by the number after
// this page's. The others of its kind are reached in turn; those of other kinds are mere links.
func (l *look) takeSteps() {
	at := slices.IndexFunc(l.steps, func(s step) bool { return s.next })
	if at < 0 {
		at = slices.IndexFunc(l.steps, func(s step) bool { return s.number == l.at.page+1 })
	}
	key := ""
	if at >= 0 && l.next == nil && len(l.numbered) == 0 && len(l.months) == 0 && l.at.way == byNext {
		l.next, key = l.steps[at].url, l.steps[at].key
	}
	for _, s := range l.steps {
		if s.key == key {
			l.pages.Leave(s.url)
		} else {
			*s.content = append(*s.content, s.url)
		}
	}
}

// unfollowed reports whether an element without an address of its own leads to a next page by a script only. The
// arrows of pictures do not count, because they stand in no element for pages.
func unfollowed(n *html.Node) bool {
	if !isNext(n, links.Label(n)) {
		return false
	}
	for p, up := n, 0; p != nil && up < 4; p, up = p.Parent, up+1 {
		if pagingClass.MatchString(class(p)) {
			return true
		}
	}
	return false
}

// buttonAddress returns the address that a button loads by a script.
func buttonAddress(n *html.Node) string {
	for _, a := range n.Attr {
		switch a.Key {
		case "data-url", "data-href", "data-next", "data-next-url", "hx-get":
			return strings.TrimSpace(a.Val)
		}
	}
	return ""
}

// button looks at a button that loads the next page.
func (l *look) button(n *html.Node) {
	u := (*url.URL)(nil)
	if ref := buttonAddress(n); ref != "" {
		u = l.pages.Resolve(ref)
	}
	switch {
	case !l.budget.Work(linkWork):
	case u == nil:
		l.scripted = l.scripted || unfollowed(n)
	case isNext(n, links.Label(n)) && identity.Canonical(u) != identity.Canonical(l.html.URL):
		l.step(u, n, new([]*url.URL))
	}
}
