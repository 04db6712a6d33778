package identity

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"carillon/aggregates/happening"
)

// Title returns a title for comparisons: [Words] without a remark such as "SOLD OUT", which comes and goes.
func Title(title string) string {
	title, _ = SplitRemark(title)
	return Words(title)
}

// Remark is the meaning of a remark of the publisher in a title.
type Remark struct {
	// Status is "" if the remark has none.
	Status  happening.Status
	SoldOut bool
}

// Words by language: English, German, French, Spanish, Portuguese, Italian, Dutch, Danish, Swedish, Norwegian,
// Finnish, Polish, Czech; for cancelled also Russian, Ukrainian, Bulgarian, Hungarian, Romanian, Slovak, Croatian,
// Slovene, Greek, Turkish, Japanese, Chinese, Korean, Arabic, Hebrew, Catalan, Estonian, Latvian, Lithuanian,
// Icelandic.
const (
	cancelledWords = `отмен[её]н[оаы]?|отменяется|скасовано|отменя се|elmarad|törölve|anulat[ăe]?|zrušené|otkazan[oa]|` +
		`odpovedan[oa]|ακυρώ(?:θηκε|νεται)|iptal(?: edildi)?|(?:公演|開催)?中止|已?取消|취소(?:됨)?|ملغ[ىيا]ة?|ألغيت|בוטל[הו]?|` +
		`cancel·la(?:t|da)|anul·la(?:t|da)|tühistatud|jääb ära|atcelts|atšaukta[s]?|aflýst|cancell?ed|called off|abgesagt|` +
		`fällt aus|entfällt|annulée?s?|cancelad[oa]s?|suspendid[oa]s?` +
		`|annullat[oi]|annullata|cancellat[oa]|afgelast|geannuleerd|vervalt|` +
		`aflyst|inställt|inställd|avlyst|peruttu|peruutettu|odwołan[eyai]|zrušeno|zrušen[aýé]`
	postponedWords = `postponed|verschoben|verlegt|reportée?s?|aplazad[oa]s?|pospuest[oa]|adiad[oa]s?|rinviat[oa]` +
		`|rimandat[oa]|uitgesteld|verplaatst|` +
		`udsat|udskudt|uppskjut(?:en|et)|utsatt|siirretty|przełożon[eyai]|odloženo|přeloženo`
	rescheduledWords = `rescheduled|new date|neuer termin|nouvelle date|nueva fecha|nova data|nuova data|nieuwe datum` +
		`|ny dato|nytt datum|uusi päivä|nowy termin|nový termín`
	soldOutWords = `sold[ -]?out|fully booked|ausverkauft|ausgebucht|complet|épuisé|guichets fermés|agotad[oa]s?` +
		`|entradas agotadas|esgotad[oa]s?|lotação esgotada|` +
		`esaurit[oi]|tutto esaurito|sold-out|uitverkocht|volgeboekt|udsolgt|slutsåld|slutsålt|fullbokat|fullbokad|utsolgt` +
		`|loppuunmyyty|wyprzedan[eya]|vyprodáno`
	remarkWords = `(` + cancelledWords + `)|(` + postponedWords + `)|(` + rescheduledWords + `)|(` + soldOutWords + `)`
)

// remarks are set off by brackets or punctuation: "Cancelled Plans" is a band. The first half is for the beginning of
// a title, the other for the end.
var remarks = []*regexp.Regexp{
	regexp.MustCompile(`(?i)^\s*[\[(*【（]+\s*(?:` + remarkWords + `)\s*[\])*!】）]+\s*[:–—|-]?\s*`),
	regexp.MustCompile(`(?i)^\s*(?:` + remarkWords + `)\s*(?:!+|[:–—|/：]|\s-)\s*`),
	regexp.MustCompile(`(?i)\s*[:–—|-]?\s*[\[(*【（]+\s*(?:` + remarkWords + `)\s*[\])*!】）]+\s*$`),
	regexp.MustCompile(`(?i)\s*(?:[:–—|/]|-\s)\s*(?:` + remarkWords + `)\s*!*\s*$`),
}

// remarkWindow is the maximum distance of a remark from an end of a title, in bytes.
const remarkWindow = 96

// SplitRemark splits a title into the rest and its remark. If nothing would remain, the title is returned unchanged.
func SplitRemark(title string) (string, Remark) {
	if !strings.ContainsAny(title, "[](*)!:–—|/-【】（）：") {
		return title, Remark{} // no separator
	}
	for i, re := range remarks {
		// A remark is at one end, and a title may be long.
		window, offset := title, 0
		if atEnd := i >= len(remarks)/2; len(title) > remarkWindow && atEnd {
			for offset = len(title) - remarkWindow; offset < len(title) && !utf8.RuneStart(title[offset]); {
				offset++
			}
			window = title[offset:]
		} else if len(title) > remarkWindow {
			window = title[:remarkWindow]
		}
		m := re.FindStringSubmatchIndex(window)
		if m == nil {
			continue
		}
		rest := strings.TrimSpace(title[:offset+m[0]] + title[offset+m[1]:])
		if rest == "" {
			return title, Remark{}
		}
		return rest, meaning(m)
	}
	return title, Remark{}
}

// meaning returns the meaning of a match of remarkWords.
func meaning(m []int) Remark {
	switch {
	case m[2] >= 0:
		return Remark{Status: happening.Cancelled}
	case m[4] >= 0:
		return Remark{Status: happening.Postponed}
	case m[6] >= 0:
		return Remark{Status: happening.Rescheduled}
	}
	return Remark{SoldOut: true}
}

var wholeRemark = regexp.MustCompile(`(?i)^\s*(?:` + remarkWords + `)\s*[.!]*\s*$`)

// ReadRemark reads a text that is nothing but a remark, for pages with a separate place for the status of an event.
func ReadRemark(text string) Remark {
	if len(text) > remarkWindow {
		return Remark{}
	}
	m := wholeRemark.FindStringSubmatchIndex(text)
	if m == nil {
		return Remark{}
	}
	return meaning(m)
}
