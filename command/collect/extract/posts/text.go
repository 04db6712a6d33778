package posts

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// text is a post prepared for reading: in NFKC, as captions use fancy letters, and without parts that only resemble
// dates.
type text struct {
	// shown is the text for quotes; masked has a mask for each byte that must not be read.
	shown, masked string
	// priced marks a post with a price.
	priced bool
}

// mask replaces a byte that is not read. It separates words.
const mask = '\x00'

// Prices, with a sign of money before or behind them. Only texts with one of moneySigns have some.
var (
	signThenPrice = regexp.MustCompile(`(?i)[£€$¥]\s?\d[\d.,]*(?:-|–)?|` +
		`(?:CHF|EUR|USD|GBP|SEK|DKK|NOK|R\$)\s?\d[\d.,]*[–-]?`)
	priceThenSign = regexp.MustCompile(`(?i)\d[\d.,]*(?:\s?,?-)?\s?(?:[£€$¥%]|euros?\b|eur\b|chf\b|pounds?\b` +
		`|dollars?\b|kr\b|pesos\b|usd\b|gbp\b)`)
	moneySigns = strings.Fields("£ € $ ¥ % chf eur usd gbp sek dkk nok pound dollar kr peso")
)

// unread matches prices, telephone numbers, web and e-mail addresses, and numbers with a unit.
var unread = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(?:https?://|www\.)\S+|\S+@\S+\.\pL{2,}|[\pL\d-]+\.(?:com|org|net|de|fr|es|it|co\.uk|eu` +
		`|info|io|nl|dk|se|pt|at|ch|be)(?:/\S*)?\b`),
	regexp.MustCompile(`[#@][\pL\d_.]*[\pL\d_]`),
	signThenPrice, priceThenSign,
	regexp.MustCompile(`\+\d[\d ()/-]{7,}\d|\b0\d{1,5}[ /-]\d[\d /-]{4,}\d|\b\d{3} \d{3} \d{3}\b|\b0\d(?: \d\d){4}\b`),
	regexp.MustCompile(`(?i)\b\d[\d.,]*\s?(?:km|m2|kg|cm|mm|min|mins|minutes|minuten|minuti|minutos|years?|yrs|jahren?` +
		`|ans|años|anni|jaar|år|people|guests|gäste|personen|personnes|personas|persone|places|plätze|mitglieder|teile` +
		`|stalls|bands|miles)\b`),
}

var price = regexp.MustCompile(`(?i)[£€$]\s?\d|\d\s?(?:[£€$]|euros?\b|kr\b|chf\b)|chf\s?\d`)

// dateLike matches the beginning of a date, which a telephone number must not have.
var dateLike = regexp.MustCompile(`^\d{2}[-/]\d{2}[-/]\d{2}(?:\d{2})?(?:\D|$)`)

func newText(raw string) *text {
	shown := norm.NFKC.String(strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\r", "\n"))
	if !strings.Contains(shown, "\n") {
		shown = strings.ReplaceAll(shown, `\n`, "\n")
	}
	shown = strings.ReplaceAll(shown, string(mask), " ")
	return &text{shown: shown, masked: shown}
}

// hide masks what must not be read, which takes longer than to look for dates. It reports whether there is such.
func (t *text) hide() (masked bool) {
	hidden := []byte(t.shown)
	lower := strings.ToLower(t.shown)
	hasMoney := slices.ContainsFunc(moneySigns, func(sign string) bool { return strings.Contains(lower, sign) })
	t.priced = hasMoney && price.Match(hidden)
	for _, re := range unread {
		if !hasMoney && (re == signThenPrice || re == priceThenSign) {
			continue
		}
		for _, at := range re.FindAllIndex(hidden, -1) {
			if dateLike.Match(hidden[at[0]:at[1]]) {
				continue
			}
			for i := at[0]; i < at[1]; i++ {
				if hidden[i] != '\n' {
					hidden[i] = mask
				}
			}
		}
	}
	t.masked = string(hidden)
	return t.masked != t.shown
}

// token is a word, a number or a sign.
type token struct {
	lower    string
	from, to int // positions in the text
	number   int // a number of up to four digits, else -1
	line     int
	sentence int  // number of the sentence in the post
	space    bool // before it, or at the beginning of a line
	upper    bool // begins with a capital letter
}

func (t *token) isWord() bool {
	r, _ := utf8.DecodeRuneInString(t.lower)
	return unicode.IsLetter(r)
}

// is reports whether the set has the token.
func (t *token) is(one map[string]bool) bool { return one[t.lower] }

// maxDigits is the maximum length of a number in a date.
const maxDigits = 4

// minToken is less than the mean length of a token with its space.
const minToken = 4

func (t *text) tokens() []token {
	all := make([]token, 0, len(t.masked)/minToken)
	line, sentence, space := 0, 0, true
	for i := 0; i < len(t.masked); {
		r, size := utf8.DecodeRuneInString(t.masked[i:])
		switch {
		case r == '\n':
			line++
			sentence++
			i, space = i+size, true
			continue
		case unicode.IsSpace(r) || r == '\u200b' || r == '\ufe0f':
			i, space = i+size, true
			continue
		}
		end := i + size
		tok := token{
			from:   i,
			number: -1,
			line:   line,
			space:  space,
		}
		switch {
		case r >= '0' && r <= '9':
			for end < len(t.masked) && t.masked[end] >= '0' && t.masked[end] <= '9' {
				end++
			}
			if end-i <= maxDigits {
				tok.number, _ = strconv.Atoi(t.masked[i:end])
			}
		case unicode.Is(unicode.Han, r): // one word each, because there are no spaces
		case unicode.IsLetter(r):
			tok.upper = unicode.IsUpper(r)
			end = wordEnd(t.masked, end)
		}
		tok.to, tok.lower = end, strings.ToLower(t.masked[i:end])
		if len(all) > 0 && begins(all, tok) {
			sentence++
		}
		tok.sentence = sentence
		all = append(all, tok)
		i, space = end, false
	}
	return all
}

func wordEnd(s string, at int) int {
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		if !unicode.IsLetter(r) && !unicode.IsMark(r) || unicode.Is(unicode.Han, r) {
			break
		}
		at += size
	}
	return at
}

// begins reports whether a token begins a sentence: after a full stop that belongs to no abbreviation or number.
func begins(before []token, t token) bool {
	last := before[len(before)-1]
	if last.line != t.line {
		return false // counted already
	}
	switch last.lower {
	case "!", "?":
		return t.lower != "!" && t.lower != "?"
	case ".":
	default:
		return false
	}
	if !t.space || !t.upper && t.lower != "¡" && t.lower != "¿" || len(before) < 2 {
		return false
	}
	word := before[len(before)-2]
	if !word.isWord() {
		if word.number < 0 || word.number >= 100 {
			return true // "… 2026. Free entry"
		}
		// "5. Dezember" and "3. Advent" continue, "3-0. Next" and "20:30. Free" do not.
		return month(t.lower) == 0 && !word.space && len(before) > 2
	}
	short := len([]rune(word.lower)) <= 3
	return !short && month(word.lower) == 0 && weekdays[word.lower] == 0 || short && stopWords[word.lower]
}

// stopWords are short words that end sentences and are not abbreviations.
var stopWords = wordSet(`pm am uhr bar pub day now all you us oder hof see fun free go it up soon here pot db uur uns`)

// between returns the text from one token up to another.
func (t *text) between(words []token, from, to int) string {
	if from >= to || to > len(words) {
		return ""
	}
	return strings.Join(strings.Fields(t.shown[words[from].from:words[to-1].to]), " ")
}

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(list) {
		set[word] = true
	}
	return set
}
