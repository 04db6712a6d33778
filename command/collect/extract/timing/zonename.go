package timing

import (
	_ "embed" // for the tables below
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

var (
	//go:embed iana.txt
	ianaText string
	//go:embed windows.txt
	windowsText string
	//go:embed displaynames.txt
	displayText string
)

// zoneNames maps the names that programs write, as [foldName] returns them, to IANA names.
type zoneNames struct {
	// iana has the names of the tz database, cities the last parts of those with a region.
	iana, cities map[string]string
	// windows has Microsoft's names, displays the names that its programs show, short the abbreviations.
	windows, displays, short map[string]string
	// common has the zones with a Windows name, Europe and America first.
	common []string
}

var loadNames = sync.OnceValue(func() *zoneNames {
	n := &zoneNames{
		iana:     map[string]string{},
		cities:   map[string]string{},
		windows:  map[string]string{},
		displays: map[string]string{},
		short:    map[string]string{},
	}
	for row := range TableRows(ianaText) {
		n.iana[foldIANA(row)] = row
		region, _, _ := strings.Cut(row, "/")
		if city := foldName(row[strings.LastIndexByte(row, '/')+1:]); regions[region] && n.cities[city] == "" {
			n.cities[city] = row
		}
	}
	ids := map[string]string{}
	for row := range TableRows(windowsText) {
		name, iana, _ := strings.Cut(row, "|")
		if ids[name] = iana; !strings.Contains(name, "+") && !strings.HasPrefix(name, "UTC-") { // an offset
			n.windows[foldName(name)] = iana
		}
	}
	for row := range TableRows(displayText) {
		row, abbreviated := strings.CutPrefix(row, "?")
		table := n.displays
		if abbreviated {
			table = n.short
		}
		name, displays, _ := strings.Cut(row, "|")
		for display := range strings.SplitSeq(displays, "|") {
			table[foldName(display)] = ids[name]
		}
	}
	others := slices.Sorted(maps.Values(n.windows))
	n.common = slices.Concat([]string{
		"Europe/Berlin", "Europe/London", "Europe/Helsinki", "America/New_York", "America/Chicago", "America/Denver",
		"America/Los_Angeles",
	}, slices.Compact(others))
	return n
})

// regions are the first parts of zone names that end in a city.
var regions = map[string]bool{
	"Africa": true, "America": true, "Antarctica": true, "Arctic": true, "Asia": true, "Atlantic": true, "Australia": true,
	"Europe": true, "Indian": true, "Pacific": true,
}

// TableRows yields the rows of a table, without comments.
func TableRows(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for row := range strings.Lines(text) {
			if row = strings.TrimSpace(row); row != "" && row[0] != '#' && !yield(row) {
				return
			}
		}
	}
}

// foldIANA folds the case of names of the tz database, and replaces blanks by underscores.
func foldIANA(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "_") }

// foldName returns the letters and digits of a name in lower case, with a blank between its parts.
func foldName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		case r == '\'' || r == '’':
		case b.Len() > 0 && !strings.HasSuffix(b.String(), " "):
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String())
}

// maxZoneName exceeds any name of a zone with the path before it.
const maxZoneName = 200

var (
	unescapeName = strings.NewReplacer(`\,`, ",", `\;`, ";", `\:`, ":", `\/`, "/", `\"`, `"`, `\\`, `\`, "&amp;", "&")
	// zoneCounter matches the counter that programs append to distinguish zones with the same name.
	zoneCounter = regexp.MustCompile(`^(.*[^\s\d_#(.-])[\s_#.-]*(?:\d{1,3}|\(\d{1,3}\))$`)
	// zoneOffset matches an offset, in brackets or not, and the rest.
	zoneOffset = regexp.MustCompile(`(?i)^[(\[]?\s*(?:(?:UTC|GMT|Z)\s*)?([+\x{2212}\x{00b1}-])\s*(\d{1,2})(?:[:.]?` +
		`(\d{2}))?(?:[:.]?00)?(?:\s*[)\]]\s*(.*)|\s+(\pL.*)|)$`)
	zoneZero = regexp.MustCompile(`(?i)^(?:[(\[](?:UTC|GMT|Z)[)\]]\s*(.*)|Z)$`)
	// zoneSeasons matches the two offsets of a zone in old versions of Exchange.
	zoneSeasons = regexp.MustCompile(`(?i)^(?:GMT|UTC)\s*([+-]\d{4})\s*\(Standard\)\s*/\s*(?:GMT` +
		`|UTC)\s*([+-]\d{4})\s*\(Daylight\)$`)
)

// CleanZoneName removes quotes, escapes of a TEXT and blanks from the name of a zone.
func CleanZoneName(name string) string {
	name = strings.Trim(strings.TrimSpace(name), `"'`)
	if strings.ContainsAny(name, `\&`) {
		name = unescapeName.Replace(name)
	}
	return strings.TrimSpace(name)
}

// FindZone returns the zone of a name, in any case: IANA's, one at the end of a path, Microsoft's, or one that
// Microsoft's programs show, also with a counter after it. It returns the IANA name too, and nil for an unknown name.
func FindZone(text string) (loc *time.Location, name string) {
	text = CleanZoneName(text)
	if text == "" || len(text) > maxZoneName {
		return nil, ""
	}
	if loc := LoadZone(text); loc != nil {
		return loc, text
	}
	name = loadNames().find(text)
	if m := zoneCounter.FindStringSubmatch(text); name == "" && m != nil {
		if _, rest, ok := offsetName(text); !ok || rest != "" {
			name = loadNames().find(m[1])
		}
	}
	if name == "" {
		return nil, ""
	}
	return LoadZone(name), name
}

// find returns the IANA name of a name, "" for an unknown one.
func (n *zoneNames) find(text string) string {
	for tail, more := text, true; more; _, tail, more = strings.Cut(tail, "/") {
		if name := n.iana[foldIANA(tail)]; name != "" {
			return name
		}
	}
	if !strings.Contains(text, "/") {
		if name := n.iana[foldIANA(strings.Replace(text, "-", "/", 1))]; name != "" { // US-Eastern
			return name
		}
	}
	if name := n.known(text); name != "" {
		return name
	}
	if m := zoneSeasons.FindStringSubmatch(text); m != nil {
		standard, _ := parseOffset(m[1])
		daylight, _ := parseOffset(m[2])
		for _, name := range n.common {
			if low, high := offsetsOf(name); low == standard && high == daylight {
				return name
			}
		}
	}
	if _, rest, ok := offsetName(text); ok && rest != "" {
		if name := n.known(rest); name != "" {
			return name
		}
		return n.iana[foldIANA(rest)]
	}
	return ""
}

// known returns the IANA name of a name of Microsoft, also of its summer form, or of Lotus, which omits "Standard
// Time".
func (n *zoneNames) known(text string) string {
	folded := foldName(text)
	if name := n.windows[folded]; name != "" {
		return name
	}
	if name := n.displays[folded]; name != "" {
		return name
	}
	for _, summer := range []string{" daylight time", " summer time"} {
		folded = strings.TrimSuffix(folded, summer)
	}
	return n.windows[folded+" standard time"]
}

// city returns the first of the cities after an offset that has this offset.
func (n *zoneNames) city(text string, offset int) string {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(",;/:()", r) }) {
		name := n.cities[foldName(part)]
		if low, _ := offsetsOf(name); name != "" && low == offset {
			return name
		}
	}
	return ""
}

// offsetsOf returns the two offsets of a zone in a current year, the lower one first.
func offsetsOf(name string) (low, high int) {
	loc := LoadZone(name)
	if loc == nil {
		return 0, 0
	}
	_, winter := time.Date(2025, 1, 1, 0, 0, 0, 0, loc).Zone()
	_, summer := time.Date(2025, 7, 1, 0, 0, 0, 0, loc).Zone()
	return min(winter, summer), max(winter, summer)
}

// GuessZone guesses the zone of a name that [FindZone] does not know: an abbreviation, a city, an offset. The name is
// "" for an offset; exact reports whether the text is nothing but the offset.
func GuessZone(text string) (loc *time.Location, name string, exact bool) {
	text = CleanZoneName(text)
	if text == "" || len(text) > maxZoneName {
		return nil, "", false
	}
	n := loadNames()
	folded := foldName(text)
	for _, table := range []map[string]string{n.short, n.cities} {
		if name := table[folded]; name != "" {
			return LoadZone(name), name, true
		}
	}
	if offset, rest, ok := offsetName(text); ok {
		if name := n.city(rest, offset); name != "" {
			return LoadZone(name), name, true
		}
		return time.FixedZone("", offset), "", rest == ""
	}
	return nil, "", false
}

// offsetName reads a name that is an offset or begins with one in brackets: "UTC+02:00", "(GMT-05.00) Eastern Time".
func offsetName(text string) (seconds int, rest string, ok bool) {
	if m := zoneZero.FindStringSubmatch(text); m != nil {
		return 0, strings.TrimSpace(m[1]), true
	}
	m := zoneOffset.FindStringSubmatch(text)
	if m == nil {
		return 0, "", false
	}
	seconds, ok = offsetOf(m[1], m[2], m[3])
	return seconds, strings.TrimSpace(m[4] + m[5]), ok
}

// CommonZones returns the zones with a Windows name, those with most people first.
func CommonZones() []string { return loadNames().common }
