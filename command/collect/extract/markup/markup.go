// Package markup sanitizes text from sources: descriptions become safe HTML, other texts plain text that is safe in
// HTML too.
package markup

import (
	"html"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/microcosm-cc/bluemonday"
	xhtml "golang.org/x/net/html"
)

// policy allows the markup of descriptions: paragraphs, lists, tables, emphasis, links and images by http, https and
// mailto. A Policy is safe for concurrent use.
var policy = sync.OnceValue(func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "div", "span", "b", "strong", "i", "em", "u", "s", "small", "sub", "sup",
		"h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "ul", "ol", "li", "dl", "dt", "dd",
		"table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "figure", "figcaption")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(false)
	p.AllowAttrs("href").OnElements("a")
	p.AllowAttrs("src").OnElements("img")
	p.AllowAttrs("alt").OnElements("img")
	p.RequireNoFollowOnLinks(true)
	return p
})

var (
	tag = regexp.MustCompile(`<[a-zA-Z/!?]`)
	// escapedTag matches markup that was escaped twice.
	escapedTag  = regexp.MustCompile(`&lt;/?[a-zA-Z][a-zA-Z0-9]*(?:\s[^&]*)?/?&gt;`)
	blankLines  = regexp.MustCompile(`\n[ \t]*\n\s*`)
	emptyBlocks = regexp.MustCompile(`<(p|div|span|li|h[1-6])>(?:\s|&nbsp;|\x{00a0}|<br/?>)*</(?:p|div|span|li|h[1-6])>`)
)

// HTML sanitizes a description. Plain text keeps its lines; blank ones separate paragraphs. Text that is escaped as a
// whole counts as markup.
func HTML(text string) string {
	text = unescapeNewlines(strings.TrimSpace(text))
	if text == "" {
		return ""
	}
	if !tag.MatchString(text) && escapedTag.MatchString(text) {
		text = html.UnescapeString(text)
	}
	if !tag.MatchString(text) {
		return paragraphs(quotes(html.EscapeString(html.UnescapeString(text))))
	}
	return strings.TrimSpace(emptyBlocks.ReplaceAllString(quotes(policy().Sanitize(text)), ""))
}

var (
	lineEnds        = strings.NewReplacer("\r\n", "\n", "\r", "\n")
	escapedLineEnds = strings.NewReplacer(`\r\n`, "\n", `\n`, "\n")
)

// unescapeNewlines replaces the two characters "\n", which plugins that escape JSON twice leave behind.
func unescapeNewlines(text string) string {
	if strings.Contains(text, "\r") {
		text = lineEnds.Replace(text)
	}
	if strings.Contains(text, "\n") || !strings.Contains(text, `\`) {
		return text
	}
	return escapedLineEnds.Replace(text)
}

func paragraphs(text string) string {
	if !strings.Contains(text, "\n") {
		return text
	}
	var b strings.Builder
	for _, p := range blankLines.Split(strings.TrimSpace(text), -1) {
		b.WriteString("<p>" + strings.ReplaceAll(strings.TrimSpace(p), "\n", "<br/>") + "</p>")
	}
	return b.String()
}

// quotes unescapes characters that are safe outside of tags, so that "it's" is stored unchanged.
func quotes(escaped string) string {
	if !strings.Contains(escaped, "&#") {
		return escaped
	}
	var b strings.Builder
	for escaped != "" {
		text, rest, inTag := strings.Cut(escaped, "<")
		b.WriteString(strings.NewReplacer("&#39;", "'", "&#34;", `"`).Replace(text))
		if !inTag {
			break
		}
		inside, after, _ := strings.Cut(rest, ">")
		b.WriteString("<" + inside + ">")
		escaped = after
	}
	return b.String()
}

// Plain returns the text without markup, on one line. It has no "<" that could begin a tag, so it is safe in HTML too.
func Plain(text string) string {
	text = unescapeNewlines(text)
	// Entities may hide markup, and that further entities.
	for range 3 {
		if tag.MatchString(text) {
			text = stripTags(text)
		}
		if !strings.Contains(text, "&") {
			break
		}
		unescaped := html.UnescapeString(text)
		if unescaped == text {
			break
		}
		text = unescaped
	}
	if tag.MatchString(text) {
		text = stripTags(text)
	}
	text = strings.Join(strings.FieldsFunc(text, isSpace), " ")
	if !strings.Contains(text, "<") {
		return text
	}
	return tag.ReplaceAllStringFunc(text, func(s string) string { return "&lt;" + s[1:] })
}

// isSpace counts control characters, soft hyphens and the like as spaces.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u200b' || r == '\ufeff'
}

// separates are elements whose content is a separate word.
var separates = map[string]bool{
	"p": true, "br": true, "div": true, "li": true, "tr": true, "td": true, "th": true, "hr": true, "dd": true, "dt": true,
	"h1": true, "h2": true, "h3": true, "h4": true, "h5": true, "h6": true, "ul": true, "ol": true, "blockquote": true,
}

// plainTags replaces the tags of most descriptions, [paragraphs] among them.
var plainTags = strings.NewReplacer("<p>", "\n", "</p>", "\n", "<br>", "\n", "<br/>", "\n")

// stripTags returns the text of a piece of HTML, still escaped.
func stripTags(text string) string {
	if bare := plainTags.Replace(text); !tag.MatchString(bare) {
		return bare // a tokenizer allocates 4 KB
	}
	var b strings.Builder
	z := xhtml.NewTokenizer(strings.NewReader(text))
	hidden := ""
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			return b.String()
		case xhtml.CommentToken, xhtml.DoctypeToken:
		case xhtml.TextToken:
			if hidden == "" {
				b.Write(z.Raw())
			}
		case xhtml.StartTagToken, xhtml.EndTagToken, xhtml.SelfClosingTagToken:
			token := z.Token()
			switch {
			case token.Data == "script" || token.Data == "style":
				hidden = ""
				if token.Type == xhtml.StartTagToken {
					hidden = token.Data
				}
			case separates[token.Data]:
				b.WriteByte('\n')
			}
		}
	}
}

// Shorten cuts plain text to at most limit characters at the end of a word, and adds an ellipsis.
func Shorten(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	runes := []rune(text)
	cut := limit - 1
	for i := cut; i > limit/2; i-- {
		if unicode.IsSpace(runes[i]) {
			cut = i
			break
		}
	}
	return strings.TrimRightFunc(string(runes[:cut]), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(",;:–-", r)
	}) + "…"
}
