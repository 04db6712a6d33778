package webhook

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"

	"carillon/aggregates/destination"
	"carillon/command/egress"
)

const (
	// concealed replaces a destination's secrets in the answers of its receiver: answers are shown to callers with access
	// to deliveries, addresses and headers are not.
	concealed = "[masked]"
	// minValue and minPart are how long a header value, and a part of a value or of an address, is at least that is
	// replaced wherever it stands: shorter ones are words like "v1" and "true", and an answer would not be readable any
	// more.
	minValue = 4
	minPart  = 6
)

// concealer replaces secrets in texts. nil replaces nothing.
type concealer struct{ replacer *strings.Replacer }

// newConcealer returns what replaces header values and the masked part of an address: whole, in parts, and as they are
// escaped in URLs, JSON and HTML.
func newConcealer(address string, headers map[string]string) *concealer {
	var s secretTexts
	for _, value := range headers {
		s.addValue(value)
	}
	s.addAddress(address)
	if len(s) == 0 {
		return nil
	}
	slices.SortFunc(s, func(a, b secretText) int { // the longest first: a part does not hide the whole
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), strings.Compare(a.text, b.text))
	})
	pairs := make([]string, 0, 2*len(s))
	for _, secret := range s {
		pairs = append(pairs, secret.text, secret.instead)
	}
	return &concealer{strings.NewReplacer(pairs...)}
}

// replace returns a text without secrets.
func (c *concealer) replace(text string) string {
	if c == nil {
		return text
	}
	return c.replacer.Replace(text)
}

// secretText is a secret, and its replacement.
type secretText struct{ text, instead string }

type secretTexts []secretText

// addValue adds a header value and its parts, such as the token after "Bearer", or what "Basic" encodes.
func (s *secretTexts) addValue(value string) {
	s.add(value, minValue)
	for part := range strings.FieldsSeq(value) {
		if part == value {
			continue
		}
		s.add(part, minPart)
	}
	if encoded, ok := strings.CutPrefix(value, "Basic "); ok {
		if plain, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			s.add(string(plain), minValue)
			_, password, _ := strings.Cut(string(plain), ":")
			s.add(password, minValue)
		}
	}
}

// addAddress adds what is masked of an address: the target of the request, and those parts that are long enough to be
// recognised by themselves.
func (s *secretTexts) addAddress(address string) {
	if !destination.Hides(address) {
		return
	}
	address, _, _ = strings.Cut(address, "#")
	shown := strings.TrimSuffix(strings.TrimSuffix(destination.Masked(address, nil), "…"), "/")
	_, rest, _ := strings.Cut(address, "://")
	at := strings.IndexAny(rest, "/?")
	if at < 0 {
		return
	}
	_, visible, _ := strings.Cut(shown, "://")
	visible = visible[min(at, len(visible)):]
	path, query, _ := strings.Cut(rest[at:], "?")
	for _, form := range [...]string{rest[at:], path} {
		if hidden := strings.TrimPrefix(form, visible); len(hidden) > 1 {
			s.addAs(form, visible+hidden[:1]+concealed)
			s.add(hidden[1:], minPart)
		}
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, visible), "/") {
		s.add(segment, minPart)
	}
	s.add(query, minPart)
	for pair := range strings.SplitSeq(query, "&") {
		s.add(pair, minPart)
		_, value, _ := strings.Cut(pair, "=")
		s.add(value, minPart)
	}
}

func (s *secretTexts) add(text string, least int) {
	if len(text) >= least {
		s.addAs(text, concealed)
	}
}

// addAs adds a text in all the forms in which an answer may repeat it.
func (s *secretTexts) addAs(text, instead string) {
	forms := []string{text, egress.WireURL("x:///" + text)[len("x:///"):], url.QueryEscape(text), url.PathEscape(text)}
	if plain, err := url.PathUnescape(text); err == nil {
		forms = append(forms, plain)
	}
	if plain, err := url.QueryUnescape(text); err == nil {
		forms = append(forms, plain)
	}
	for _, form := range forms {
		quoted := appendString(nil, form)
		quoted = quoted[1 : len(quoted)-1]
		var careful bytes.Buffer
		json.HTMLEscape(&careful, quoted)
		for _, escaped := range [...]string{
			form, string(quoted), strings.ReplaceAll(string(quoted), "/", `\/`), careful.String(), html.EscapeString(form),
		} {
			if !slices.ContainsFunc(*s, func(known secretText) bool { return known.text == escaped }) {
				*s = append(*s, secretText{escaped, instead})
			}
		}
	}
}
