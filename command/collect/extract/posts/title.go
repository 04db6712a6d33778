package posts

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"carillon/command/collect/extract/markup"
)

// groups returns the remaining dates by event. A post is a list of events if several of its sentences have a date and a
// title each.
func (r *reader) groups() [][]date {
	r.dates = r.onePerDay(r.dates)
	if len(r.dates) == 0 {
		return nil
	}
	bySentence := map[int][]date{}
	var order []int
	for _, d := range r.dates {
		n := r.at(d.from).sentence
		if bySentence[n] == nil {
			order = append(order, n)
		}
		bySentence[n] = append(bySentence[n], d)
	}
	titled := 0
	for _, n := range order {
		if title := r.sentenceTitle(n); title != "" {
			titled++
		}
	}
	if len(order) == 1 || titled < len(order) {
		return [][]date{r.dates}
	}
	groups := make([][]date, 0, len(order))
	for _, n := range order {
		groups = append(groups, bySentence[n])
	}
	return groups
}

// onePerDay removes repeated days; the one with a time remains.
func (r *reader) onePerDay(all []date) []date {
	var kept []date
	for _, d := range all {
		i := slices.IndexFunc(kept, func(k date) bool {
			return k.days[0].Equal(d.days[0]) && len(k.days) == 1 && len(d.days) == 1
		})
		if i < 0 {
			kept = append(kept, d)
			continue
		}
		was, is := r.clockOf(kept[i]), r.clockOf(d)
		switch {
		case is == nil || was != nil && was.from == is.from && kept[i].last.Equal(d.last):
		case was == nil:
			kept[i] = d
		case was.start != is.start && r.at(kept[i].from).line == r.at(d.from).line:
			kept = append(kept, d) // matinee and evening
		}
	}
	return kept
}

// title returns the line that names the event, and its number.
func (r *reader) title(group []date) (string, int) {
	n := r.at(group[0].from).sentence
	if len(r.dates) > len(group) { // one of a list
		own := r.sentenceTitle(n)
		if r.ofTour(group) {
			if head := r.sentenceTitle(0); head != "" {
				own = head + ": " + own
			}
		}
		return own, r.at(group[0].from).line
	}
	last := r.at(len(r.words) - 1).sentence
	for _, anything := range []bool{false, true} {
		for s := 0; s <= min(last, n+2); s++ {
			title := r.sentenceTitle(s)
			if title == "" || s < n && !anything && (isGreeting(title) || r.speaksOfOther(s)) {
				continue
			}
			line := r.lineOf(s)
			if better := r.namingPiece(n, s, title); better != "" {
				title = better
			}
			return title, line
		}
	}
	return "", 0
}

// namingPiece returns a piece of the date's line that names an event, if the title names none and is a mere call or
// the rest of a sentence.
func (r *reader) namingPiece(n, s int, title string) string {
	if eventWords.find(padded(title)) != "" || r.lineOf(s) != r.lineOf(n) || s > n {
		return ""
	}
	all := r.pieces(n)
	leftOver := s == n && len(all) > 0 && (startsSmall(all[0]) || openEnd.MatchString(strings.TrimRight(all[0], "'’ ")))
	if s == n && !leftOver {
		return ""
	}
	for _, piece := range all {
		if better := tidy(piece); eventWords.find(padded(better)) != "" && better != "" {
			return better
		}
	}
	return ""
}

// openEnd matches a sentence that continues after the date.
var openEnd = regexp.MustCompile(`(?i)\s(?:for|to|zum|zur|pour|para|per|next|of|von|with|mit|avec|con)$`)

func startsSmall(piece string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(piece, " ,:;.–—|-"))
	return unicode.IsLower(first)
}

func (r *reader) lineOf(sentence int) int {
	from, _ := r.sentence(sentence)
	return max(r.at(from).line, 0)
}

// speaksOfOther reports whether a sentence is about the past or another subject, so that it is not a title.
func (r *reader) speaksOfOther(sentence int) bool {
	words := padded(r.sentenceText(sentence))
	for _, s := range otherSubjects {
		if s.weight >= 4 && s.words.find(words) != "" {
			return eventWords.find(words) == ""
		}
	}
	return false
}

var tourWords = phrases("tour|, tournee, tournée, gira|, turné, turnê, on tour")

func (r *reader) ofTour(group []date) bool {
	return r.at(group[0].from).sentence > 0 && tourWords.find(padded(r.sentenceText(0))) != ""
}

var greetings = regexp.MustCompile(`(?i)^(?:doors open|save the date|mark your calendars?|just announced` +
	`|announcement|news|coming soon|coming up|hello.*|hi .*|hey .*|dear .*|liebe .*|hallo.*|guten .*|bonjour.*|chers .*` +
	`|chères .*|salut.*|hola.*|queridos .*|ciao.*|cari .*|vormerken|nicht vergessen|reminder|don'?t forget|erinnerung|` +
	`termin|termine|agenda|à vos agendas|rappel|aviso|avviso|tonight|today|tomorrow|heute|heute abend|morgen|stasera` +
	`|ce soir|esta noche|wow|🎉|new|neu|nouveau|nuevo|nuovo|breaking|attention|achtung|attenzione|atención|.*link in ` +
	`bio.*)[\s!:.…]*$`)

func isGreeting(title string) bool { return greetings.MatchString(title) }

var (
	// leadIns are announcements before a title in its line.
	leadIns = regexp.MustCompile(`(?i)^(?:save the date|mark your calendars?|vormerken|just announced|reminder` +
		`|erinnerung|new exhibition|neue ausstellung|don'?t forget|(?:nächster?|next|prochaine?|próxim[oa]|prossim[oa])` +
		`|(?:wir laden |herzliche |herzlich )(?:\pL+ )*(?:ein )?(?:zum|zur|zu)|einladung zu[mr]?|join us (?:for|at)|` +
		`put it in the diary:?|notice is hereby given that|(?:you are|you're) invited to|come (?:along )?to|(?:we've|we ` +
		`have) got (?:two|a few|some) (?:spaces|places) left on|better late than never:?|programme dévoilé|vuelve|llega` +
		`|torna|es wieder so weit:?|c'est|for the|für (?:das|die|den)|celebra con nosotros (?:el|la)|convocamos|è ` +
		`convocat[ao]|(?:morgen|heute) (?:abend )?ist es wieder so weit|this \pL+day|tonight|heute abend|diesen \pL+|ce ` +
		`soir|esta noche|stasera|nous vous invitons (?:à|au)|venez (?:à|au)|os esperamos en|vi aspettiamo (?:a|al` +
		`|alla))\s*[!:,–—-]*\s+`)
	// leadOuts are the remains before a date that was cut off.
	leadOuts = regexp.MustCompile(`(?i)(?:[\s,;:|/·•*–—~(\[-]|(?:^|\s)(?:on the evening of|on|at|from|the|this|next|and` +
		`|&|is|are|will be|is back|returns|starts|am|um|vom|von|ab|den|der|dem|d\.?|bis|und|uhr|kommenden|diesen|le|la|du` +
		`|de|à|au|dès|ce|et|rdv|l'|el|del|a las|a|los|y|desde|este|il|lo|dal|dalle|alle|ore|h|e|in|nel|questa|questo|op|om` +
		`|van|kl\.?|på|` +
		`i|às|em|dia|is back on|returns on|play|plays|meets|takes place|will take place|will be held|will be joining us` +
		`|findet statt|findet|steht fest|feiern wir|tendrá lugar|se celebra|aura lieu|avrà luogo|si terrà|próximo|próxima` +
		`|prochain|prochaine|prossimo|prossima|nächsten|:))+$`)
	leadDays = regexp.MustCompile(`(?i)^(?:[\s,;:|/·•*–—~)\].!-]|(?:at|um|à|a las|alle|ore|kl\.?|uhr|h|pm|am|is|are|ist` +
		`|:)(?:\s|$))+`)
	spaces  = regexp.MustCompile(`\s+`)
	tagsAnd = regexp.MustCompile(`[#@][\pL\d_.]+|https?://\S+|www\.\S+`)
	noise   = regexp.MustCompile(
		`[\x{1F000}-\x{1FAFF}\x{2600}-\x{27BF}\x{2B00}-\x{2BFF}\x{FE0F}\x{200D}\x{2190}-\x{21FF}\x{231A}-\x{23FF}]`)
)

// sentenceTitle returns the part of a sentence without dates, times and addresses: before the date, or else after it.
func (r *reader) sentenceTitle(n int) string {
	for _, piece := range r.pieces(n) {
		if title := tidy(piece); title != "" {
			return title
		}
	}
	return ""
}

// pieces returns the parts of a sentence between dates, times and addresses.
func (r *reader) pieces(n int) []string {
	first, end := r.sentence(n)
	var pieces []string
	begin := first
	take := func(to int) {
		if begin < to {
			pieces = append(pieces, r.text.shown[r.words[begin].from:r.words[to-1].to])
		}
	}
	for i := first; i < end; {
		skip := r.skips(i)
		if skip == 0 {
			i++
			continue
		}
		take(i)
		i += skip
		begin = i
	}
	if begin < end {
		// Characters outside of tokens, such as a closing bracket, are part of the text.
		pieces = append(pieces, r.text.shown[r.words[begin].from:r.words[end-1].to])
	}
	return pieces
}

// skips returns the number of tokens of a date or time, or of its signs, at a token.
func (r *reader) skips(i int) int {
	for _, d := range r.every {
		if d.from <= i && i < d.to {
			return d.to - i
		}
	}
	for _, c := range r.clocks {
		if c.from <= i && i < c.to {
			return c.to - i
		}
	}
	if r.at(i).lower == "📍" { // a place follows
		j := i + 1
		for j < len(r.words) && r.sameLine(i, j) {
			j++
		}
		return j - i
	}
	if r.at(i).lower == string(mask) || strings.ContainsAny(r.at(i).lower, "📅🗓📆⏰🕗") {
		return 1
	}
	return 0
}

const longestTitle = 120

func tidy(piece string) string {
	for _, part := range noise.Split(piece, 2)[:1] {
		if len(strings.Fields(part)) > 1 && !startsSmall(part) {
			piece = part // a picture ends the decorated part
		}
	}
	piece = noise.ReplaceAllString(tagsAnd.ReplaceAllString(piece, " "), " ")
	piece = strings.TrimSpace(spaces.ReplaceAllString(strings.ReplaceAll(piece, string(mask), " "), " "))
	for {
		before := piece
		piece = strings.TrimSpace(leadOuts.ReplaceAllString(piece, ""))
		piece = strings.TrimSpace(leadDays.ReplaceAllString(piece, ""))
		piece = strings.TrimSpace(leadIns.ReplaceAllString(piece, ""))
		if piece == before {
			break
		}
	}
	piece = strings.TrimRight(piece, "!.… ")
	if strings.Count(piece, "?") > strings.Count(piece, "¿") {
		piece = strings.TrimRight(piece, "? ")
	}
	if open := strings.Count(piece, "(") - strings.Count(piece, ")"); open < 0 {
		piece = strings.TrimRight(piece, ") ")
	}
	letters := 0
	for _, c := range piece {
		if unicode.IsLetter(c) {
			letters++
		}
	}
	if letters < 3 || isGreeting(piece) || isLabel(piece) {
		return ""
	}
	return markup.Shorten(markup.Plain(capital(piece)), longestTitle)
}

// capital capitalizes a piece after a date, unless it is spelled as in "iPhone".
func capital(piece string) string {
	first, size := utf8.DecodeRuneInString(piece)
	next, _ := utf8.DecodeRuneInString(piece[size:])
	if !unicode.IsLower(first) || unicode.IsUpper(next) {
		return piece
	}
	return string(unicode.ToUpper(first)) + piece[size:]
}

var labels = wordSet("when where what time date doors wann wo was quand où lieu dónde cuándo lugar dove quando " +
	"luogo beginn start einlass uhr saturday sunday")

// isLabel reports whether a piece is a label such as "Doors" or "When".
func isLabel(piece string) bool {
	words := strings.Fields(strings.ToLower(strings.Trim(piece, ":.!-– ")))
	if len(words) != 1 {
		return false
	}
	if eventWords.find(padded(words[0])) != "" {
		return false // "Concert" may be the only title
	}
	return labels[words[0]] || doorWords[words[0]] || startWords[words[0]] || wholeWeekdays[words[0]]
}
