package console

import (
	"embed"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/cmd/internal/wire"
	"carillon/command/plaintext"
	"carillon/query"
)

//go:embed templates
var templates embed.FS

// parsePages parses the templates, once for both consoles. A page is named by its file.
var parsePages = sync.OnceValues(func() (*template.Template, error) {
	return template.New("pages").Funcs(functions).ParseFS(templates, "templates/*.html")
})

// functions are the functions for templates. Foreign values must go through text or json.
var functions = template.FuncMap{
	"text": text, "json": pretty, "when": when, "span": eventSpan,
	"iso": iso, "ago": ago, "short": short, "words": words[string], "dict": dict,
	"status": statusWord, "notices": noticesTo,
	"percent": percent, "bytes": size, "every": every, "seconds": seconds, "behind": behind, "ended": ended, "cut": cut,
	"host": host, "add": add, "upper": upperFirst, "label": labelOf,
	"hint":   func(input string) string { return hints[input] },
	"number": number, "count": count, "plural": plural, "failure": failureWords, "since": sinceThen, "took": milliseconds,
	"ofOperators": func(organization uuid.UUID) bool { return organization == destination.Operators },
}

const (
	maxText = 2_000  // visible characters of one value
	maxJSON = 32_000 // visible bytes of one document

	code = "⟨U+%04X⟩" // in the place of a character that steers the text around
)

// text makes foreign text safe to look at: invisible characters, and those that change the direction of the text
// around, are shown as their codes, and long text is cut.
func text(s string) string {
	shown, rest := []rune(strings.ToValidUTF8(s, "\ufffd")), ""
	if len(shown) > maxText {
		shown, rest = shown[:maxText], fmt.Sprintf(" … (%d characters in all)", len([]rune(s)))
	}
	return revealed(string(shown), code, hidden) + rest
}

// hidden reports what steers the text around, except line ends and tabs.
func hidden(r rune) bool { return r != '\n' && r != '\t' && plaintext.Steers(r) }

// shownPage returns a page in which texts show what steers the text around. Those that are edited keep it.
func shownPage(page string) string {
	steers := func(r rune) bool { return hidden(r) && r != '\r' }
	if !strings.ContainsFunc(page, steers) {
		return page
	}
	const edited = "<textarea"
	parts := strings.Split(page, edited)
	for i, part := range parts {
		form, text := "", part
		if i > 0 {
			form, text, _ = strings.Cut(part, "</textarea>")
			form = edited + form + "</textarea>"
		}
		parts[i] = form + revealed(text, code, steers)
	}
	return strings.Join(parts, "")
}

// pretty indents a JSON document. Other text is returned unchanged.
func pretty(raw []byte) string {
	if len(raw) > maxJSON {
		return revealed(string(raw[:maxJSON]), code, hidden) + fmt.Sprintf("\n… (%d bytes in all)", len(raw))
	}
	laid := jsontext.Value(raw).Clone()
	if laid.Indent(jsontext.WithIndent("  ")) != nil {
		return revealed(string(raw), code, hidden)
	}
	return escaped(laid)
}

// escaped replaces the invisible characters of a JSON document by JSON escapes, which does not change its meaning.
func escaped(document []byte) string { return revealed(string(document), `\u%04x`, hidden) }

// revealed replaces characters by their codes.
func revealed(s, format string, replaced func(rune) bool) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		if replaced(r) {
			fmt.Fprintf(&b, format, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// whenFormat is how times stand in texts: the script finds them by it, and shows them in the zone of the visitor.
const whenFormat = "2 Jan 2006, 15:04:05 UTC"

func when(at any) string {
	return formatted(at, func(at time.Time) string { return at.UTC().Format(whenFormat) })
}

func iso(at any) string {
	return formatted(at, func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) })
}

// formatted formats a time or a *time.Time; of none it returns "".
func formatted(at any, format func(time.Time) string) string {
	switch at := at.(type) {
	case time.Time:
		return format(at)
	case *time.Time:
		if at != nil {
			return format(*at)
		}
	}
	return ""
}

// ago formats a time as relative to now.
func ago(at, now time.Time) string {
	d := now.Sub(at)
	switch {
	case d < -time.Second:
		return "in " + length(-d)
	case d < 2*time.Second:
		return "just now"
	}
	return length(d) + " ago"
}

func length(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// size formats a number of bytes.
func size(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, unit := float64(n)/(1<<10), 0
	for value >= 1000 && unit < 4 {
		value, unit = value/(1<<10), unit+1
	}
	digits := 0
	if value < 10 {
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + " " + []string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit]
}

// every formats the time between two visits, in seconds.
func every(interval int) string { return length(time.Duration(interval) * time.Second) }

// behind reports whether a consumer is late enough to need attention.
func behind(s *float64) bool { return s != nil && *s > late }

// seconds formats a delay.
func seconds(s *float64) string {
	switch {
	case s == nil:
		return "not known"
	case *s == 0:
		return "none"
	case *s < 1:
		return "< 1 s"
	}
	return length(time.Duration(*s * float64(time.Second)))
}

// short returns the beginning of an id, which is unique enough on a page.
func short(id fmt.Stringer) string { return id.String()[:8] }

func words[S ~string](list []S) string {
	return strings.Join(wire.ListOf(list, func(word S) string { return string(word) }), ", ")
}

// failureWords says why an attempt failed, in the same words on every page.
func failureWords(a query.Attempt) string {
	if a.ErrorMessage != nil && *a.ErrorMessage != "" {
		return text(*a.ErrorMessage)
	}
	return delivery.Failure(*a.FailureReason).Words()
}

// statusWord returns a status in words.
func statusWord(status any) string { return strings.ReplaceAll(fmt.Sprint(status), "_", "-") }

// searchable refuses a text that Postgres can't search for.
func searchable(field, text string) error {
	if strings.ContainsRune(text, 0) || !utf8.ValidString(text) || len(text) > maxText {
		return wire.Fail(wire.BadQuery, field, "must be at most %d bytes of valid UTF-8 without NUL characters", maxText)
	}
	return nil
}

// fit cuts a text to the bytes that it may take on a page.
func fit(s string, room int) string {
	for at, r := range s {
		switch r {
		case '<', '>', '&', '"', '\'', '+':
			room -= len("&#34;")
		default:
			room -= utf8.RuneLen(r)
		}
		if room < 0 {
			return s[:at] + fmt.Sprintf("\n… (%d bytes in all)", len(s))
		}
	}
	return s
}

// cut cuts a text to a number of characters.
func cut(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return text(s)
}

// number formats an integer of any type with separators: 12,345.
func number(n any) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// count formats a number of things.
func count(n int, thing string) string {
	many := thing + "s"
	if stem, is := strings.CutSuffix(thing, "y"); is {
		many = stem + "ies"
	}
	return number(n) + " " + plural(n, thing, many)
}

// plural returns the words for one thing, or those for another number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// sinceThen is ago for a time or a *time.Time.
func sinceThen(at any, now time.Time) string {
	return formatted(at, func(at time.Time) string { return ago(at, now) })
}

// add adds integers of any type.
func add(numbers ...*int) (sum int) {
	for _, n := range numbers {
		if n != nil {
			sum += *n
		}
	}
	return sum
}

// dict builds the argument of a template.
func dict(pairs ...any) map[string]any {
	made := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if name, ok := pairs[i].(string); ok {
			made[name] = pairs[i+1]
		}
	}
	return made
}

// ended returns the number of deliveries that succeeded or failed.
func ended(o query.Outcomes) int { return o.Succeeded + o.Failed }

// percent formats a share and rounds towards the middle: 100 % is all.
func percent(part, whole int) string {
	switch {
	case whole == 0:
		return "–"
	case part == whole:
		return "100 %"
	}
	return strconv.FormatFloat(min(99.9, float64(part)*100/float64(whole)), 'f', 1, 64) + " %"
}
