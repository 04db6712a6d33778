package fetch

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// guess is an encoding that programs use without saying so, with the weights of the letters that are common in its
// language.
type guess struct {
	encoding encoding.Encoding
	weights  map[rune]float64
}

// commonCharacter is the weight of a character of which a script has thousands.
const commonCharacter = 0.7

// guesses are the encodings to guess, the best first if two fit equally.
var guesses = sync.OnceValue(func() []guess {
	letters := func(e encoding.Encoding, byFrequency string) guess {
		g := guess{e, map[rune]float64{}}
		all := []rune(byFrequency)
		for i, r := range all {
			g.weights[r] = 1 - float64(i)/float64(len(all))
		}
		return g
	}
	const cyrillic = "оеаинтсрвлкмдпуыяьгзбчйхжшюцщэфъ"
	kana := [4]byte{0xa4, 0xa5, 0xa1, 0xfe}
	return []guess{
		letters(charmap.Windows1251, cyrillic), letters(charmap.KOI8R, cyrillic),
		letters(charmap.Windows1253, "αοιετσνηρπκςμλυάδγίέθήχωύώφβξζψ"),
		letters(charmap.Windows1255, "יוהלארתבמשםנדעחקכפגטסצןךזץףױ"),
		letters(charmap.Windows1256, "اليمنوترةبعدسفهكقحجشصطخأضىذثزغءإئآؤظ"),
		letters(charmap.Windows874, "านรกอเงมยลว่้ดทสีตะัปบิคหแจพชขใไ์ืุูโผซ"),
		characters(korean.EUCKR, [4]byte{0xb0, 0xc8, 0xa1, 0xfe}),
		characters(simplifiedchinese.GB18030, [4]byte{0xb0, 0xd7, 0xa1, 0xfe}),
		characters(traditionalchinese.Big5, [4]byte{0xa4, 0xc6, 0x40, 0x7e}, [4]byte{0xa4, 0xc6, 0xa1, 0xfe}),
		characters(japanese.EUCJP, kana, [4]byte{0xb0, 0xcf, 0xa1, 0xfe}),
		characters(japanese.ShiftJIS, [4]byte{0x82, 0x83, 0x40, 0xf1}, [4]byte{0x88, 0x97, 0x40, 0xfc}),
	}
})

// characters returns a guess with the common characters of an encoding, which are those of ranges of first and second
// bytes.
func characters(e encoding.Encoding, ranges ...[4]byte) guess {
	g := guess{e, map[rune]float64{}}
	decoder := e.NewDecoder()
	for _, r := range ranges {
		for first := int(r[0]); first <= int(r[1]); first++ {
			for second := int(r[2]); second <= int(r[3]); second++ {
				both := []byte{byte(first), byte(second)} //nolint:gosec // both are bytes of a range
				if text, err := decoder.String(string(both)); err == nil &&
					utf8.RuneCountInString(text) == 1 {
					c, _ := utf8.DecodeRuneInString(text)
					g.weights[c] = commonCharacter
				}
			}
		}
	}
	delete(g.weights, utf8.RuneError)
	return g
}

const (
	// maxSample limits the bytes that are examined, minFit is the least mean weight of an encoding that fits.
	maxSample = 16 << 10
	minFit    = 0.45
)

// guessed returns the encoding of a text that names none and is not UTF-8; nil for one of the western languages, whose
// letters beyond ASCII stand alone.
func guessed(body []byte) encoding.Encoding {
	body = body[:min(len(body), maxSample)]
	alone, inRuns, run := 0, 0, 0
	for i := range len(body) + 1 {
		switch {
		case i < len(body) && body[i] >= utf8.RuneSelf:
			run++
		case run < 3:
			alone, run = alone+run, 0
		default:
			inRuns, run = inRuns+run, 0
		}
	}
	if inRuns <= alone {
		return nil
	}
	var best encoding.Encoding
	fit := minFit
	for _, g := range guesses() {
		text, err := g.encoding.NewDecoder().Bytes(body)
		if err != nil {
			continue
		}
		sum, n := 0.0, 0
		for _, r := range strings.ToLower(string(text)) {
			if r >= utf8.RuneSelf && !unicode.IsPunct(r) {
				sum, n = sum+g.weights[r], n+1
			}
		}
		if n > 0 && sum/float64(n) > fit {
			best, fit = g.encoding, sum/float64(n)
		}
	}
	return best
}
