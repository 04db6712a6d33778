package match

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// words is a title prepared for comparison.
type words struct {
	all   []string // concepts, in order, each once
	count int      // words that identify the event
}

func setOf(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// maxText limits how much of a name or an address is compared, in bytes, because each word is compared with each of
// the other's. Real ones are shorter.
const maxText = 600

// split returns the words of a name: NFKC, lower case, without accents, and digraphs of some languages as one letter.
func split(name string) []string {
	if len(name) > maxText {
		name = strings.ToValidUTF8(name[:maxText], "")
	}
	name = strings.ToLower(norm.NFKC.String(name))
	name = elisions.ReplaceAllString(name, "")
	name = letters.Replace(name)
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(name))
	all := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range all {
		all[i] = umlauts.Replace(word)
	}
	return all
}

// letters replaces letters without removable accents, and hyphens; umlauts are replaced as they are written without
// dots.
var (
	letters = strings.NewReplacer("ß", "ss", "ø", "o", "æ", "a", "ł", "l", "&", " ", "’", " ", "'", " ")
	umlauts = strings.NewReplacer("ae", "a", "oe", "o", "ue", "u")
)

// elisions are articles without their vowel: "d'Avvento", "all'aperto".
var elisions = regexp.MustCompile(`\b(?:d|l|s|n|j|c|m|t|qu|un|dell|all|nell|dall|sull)['’]`)

// presenters match the presenter before a colon.
var presenters = regexp.MustCompile(`(?i)^.{1,40}\b(?:presents?|presenting|präsentier(?:t|en)|presenta|présente)\b:?`)

func joined(name string) string { return strings.Join(split(name), " ") }

func number(word string) bool {
	_, err := strconv.Atoi(word)
	return err == nil
}

// titleOf returns the words of a title without remarks and dates.
func titleOf(title string, starts []start, zone *time.Location) words {
	for range 3 {
		rest, remark := identity.SplitRemark(title)
		if remark == (identity.Remark{}) {
			break
		}
		title = rest
	}
	if rest := presenters.ReplaceAllString(title, ""); strings.TrimSpace(rest) != "" {
		title = rest
	}
	all := split(title)
	kept := slices.DeleteFunc(slices.Clone(all), func(word string) bool {
		return fillers[word] || isDate(word) || isClock(word) || number(word) && saysWhen(word, starts, zone)
	})
	if len(kept) == 0 {
		kept = all
	}
	var w words
	for _, word := range kept {
		specific := false
		for _, c := range concepts(word) {
			specific = specific || generic[c] == 0
			if !slices.Contains(w.all, c) {
				w.all = append(w.all, c)
			}
		}
		if specific {
			w.count++
		}
	}
	return w
}

// without removes the names of places, unless nothing is left.
func (w words) without(places ...place) words {
	kept := slices.DeleteFunc(slices.Clone(w.all), func(word string) bool {
		return slices.ContainsFunc(places, func(p place) bool {
			return slices.Contains(p.venue, word) || slices.Contains(p.room, word) || slices.Contains(p.where, word) &&
				!number(word)
		})
	})
	if len(kept) > 0 {
		w.all = kept
	}
	return w
}

// fillers are words of titles without meaning.
var fillers = setOf(`the a an of and or with at in on for by to from feat ft featuring presents presenting live ` +
	`event events
	der die das den dem des ein eine einen einem einer mit und von vom zu zum zur im in am an auf bei fur uber ` +
	`prasentiert prasentieren
	le la les un une des du de et avec au aux dans sur pour par presente
	il lo gli i uno una di del della dello dei delle degli da dal dalla con e ed al alla allo in nel nella per presenta
	el los las y en con por para het een van met op te o os as do dos com em och med og
	uhr ore alle vs versus gegen contro support special guest guests ticket tickets ab jahren jahre years anni ans`)

func isDate(word string) bool {
	if _, ok := timing.Month(word); ok && len(word) > 3 {
		return true
	}
	_, ok := timing.WeekdayName(word)
	return ok && len(word) > 3
}

// isClock reads "20h", "8pm", "20uhr".
func isClock(word string) bool {
	rest := strings.TrimLeft(word, "0123456789")
	return rest != word && (rest == "h" || rest == "am" || rest == "pm" || rest == "uhr")
}

// saysWhen reports whether a number belongs to the date or the time of a start.
func saysWhen(word string, starts []start, zone *time.Location) bool {
	n, err := strconv.Atoi(word)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(starts, func(s start) bool {
		at := s.at.In(zone)
		return len(word) == 4 && n == at.Year() || len(word) == 2 && (n == at.Day() || n == int(at.Month()) || !s.allDay &&
			(n == at.Hour() || n == at.Minute() || n == at.Hour()%12)) ||
			len(word) == 2 && n == at.Year()%100
	})
}

// marks returns the longest words that identify the event.
func (w words) marks() []string {
	return firstOf(slices.DeleteFunc(slices.Clone(w.all), func(word string) bool { return generic[word] > 0 }), 2)
}

// weight returns how well a word identifies the event.
func weight(word string) float64 {
	if w := generic[word]; w > 0 {
		return w
	}
	return 1
}

// titles is the result of a comparison of titles.
type titles struct {
	score     float64 // shared weight of all, 0 to 1
	specific  float64 // shared weight of words that are not generic
	within    bool    // one has all words of the other
	replaced  bool    // each has a word that the other lacks and that is not generic
	sole      bool    // they share a kind of event that occurs once at a time in a place
	otherKind bool
}

func compareTitles(a, b words) titles {
	var t titles
	restA, restB := slices.Clone(a.all), slices.Clone(b.all)
	total, shared := 0.0, 0.0
	for _, word := range append(slices.Clone(a.all), b.all...) {
		total += weight(word)
	}
	for _, x := range a.all {
		i := slices.IndexFunc(restB, func(y string) bool { return wordsEqual(x, y) })
		if i < 0 {
			continue
		}
		shared += weight(x) + weight(restB[i])
		if generic[x] == 0 {
			t.specific++
		}
		t.sole = t.sole || soleKinds[x]
		restB = slices.Delete(restB, i, i+1)
		restA = slices.DeleteFunc(restA, func(y string) bool { return y == x })
	}
	if total > 0 {
		t.score = shared / total
	}
	own := func(rest []string) bool {
		return slices.ContainsFunc(rest, func(w string) bool { return generic[w] == 0 })
	}
	t.within = len(restA) == 0 || len(restB) == 0
	t.replaced = own(restA) && own(restB)
	named := func(word string) bool { return qualifiers[word] }
	t.otherKind = slices.ContainsFunc(restA, named) || slices.ContainsFunc(restB, named) ||
		slices.ContainsFunc(restA, counted) && slices.ContainsFunc(restB, counted)
	return t
}

// counted reports whether a word numbers an event of a group.
func counted(word string) bool {
	return number(word) || len(word) == 1 || mixed(word) || ordinals[word]
}

// mixed reports whether a word has letters and digits, such as "u14" or "2a".
func mixed(word string) bool {
	return strings.ContainsAny(word, "0123456789") && strings.Trim(word, "0123456789") != "" && len(word) <= 4
}

// alike reports whether two titles are equivalent. support reports that something beside them is the same.
func (t titles) alike(support bool) bool {
	switch {
	case t.within && (t.specific > 0 || t.score == 1 || t.sole):
		return true
	case t.replaced:
		return t.score >= replaced || support && t.score >= alike
	case t.specific == 0:
		return t.score >= certain
	}
	return t.score >= alike || support && t.score >= helped
}

// wordsEqual reports whether two words mean the same, except for a letter or an ending.
func wordsEqual(a, b string) bool {
	if a == b {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 5 || strings.ContainsAny(a+b, "0123456789#") {
		return false
	}
	if strings.HasPrefix(b, a) && len(b)-len(a) <= 3 {
		return true
	}
	return distance(a, b, 1+len(b)/10) <= 1+len(b)/10
}

// distance returns the Levenshtein distance, or more than the limit.
func distance(a, b string, limit int) int {
	if len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, least := row[0], i+1
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
			least = min(least, row[j+1])
		}
		if least > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
