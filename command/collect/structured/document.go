package structured

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/PuerkitoBio/goquery"

	"carillon/command/collect"
	"carillon/command/collect/identity"
	"carillon/command/collect/markup"
)

// document is a page with what it says about itself.
type document struct {
	page Page
	// base is what relative URLs are relative to.
	base *url.URL
	// canonical is the page's own idea of its URL, if on the same host.
	canonical *url.URL
	language  string
	// headings are what the page says it is about, fit for comparing.
	headings    []string
	description string
	image       string
	monthFirst  bool
	notes       []collect.Note
}

func newDocument(p Page) *document {
	d := &document{page: p, base: p.URL, canonical: p.URL}
	doc := p.Document
	if href, ok := doc.Find("base[href]").First().Attr("href"); ok {
		if u := d.resolve(href); u != nil {
			d.base = u
		}
	}
	if href, ok := doc.Find("link[rel~=canonical][href]").First().Attr("href"); ok {
		if u := d.resolve(href); u != nil && identity.SameSite(u, p.URL) {
			d.canonical = u
		}
	}
	d.language = strings.ToLower(strings.TrimSpace(doc.Find("html").AttrOr("lang", "")))
	// Only English is written month first, and only by some who write it.
	english := d.language == "" || strings.HasPrefix(d.language, "en")
	d.monthFirst = d.language == "en-us" || english && strings.HasPrefix(p.Timezone, "America/")
	heading := func(text string) {
		if text = identity.Words(text); text != "" {
			d.headings = append(d.headings, text)
		}
	}
	heading(d.meta("og:title"))
	heading(doc.Find("title").First().Text())
	doc.Find("h1").Each(func(_ int, h *goquery.Selection) { heading(h.Text()) })
	d.description = markup.Plain(first(d.meta("og:description"), d.meta("description")))
	d.image = d.picture(d.meta("og:image"))
	return d
}

// meta is the content of a meta element, by property or name.
func (d *document) meta(name string) string {
	found := d.page.Document.Find(fmt.Sprintf(`meta[property=%q], meta[name=%q]`, name, name)).First()
	return strings.TrimSpace(found.AttrOr("content", ""))
}

// maxNotes is as many as anyone would read.
const maxNotes = 20

func (d *document) note(code collect.NoteCode, format string, args ...any) {
	if len(d.notes) >= maxNotes {
		return
	}
	d.notes = append(d.notes, collect.Note{Code: code, Text: fmt.Sprintf(format, args...)})
}

// tellingLength is how long a heading has to be to be found in a title.
const tellingLength = 8

// about says that the page as a whole is about something of this title: one of
// its headings holds the title, or the title a heading.
func (d *document) about(title string) bool {
	title = identity.Title(title)
	within := func(whole, part string) bool { return strings.Contains(" "+whole+" ", " "+part+" ") }
	for _, h := range d.headings {
		if title != "" && (within(h, title) || len(h) >= tellingLength && within(title, h)) {
			return true
		}
	}
	return false
}

// domains are the endings by which "tickets.example.com/x" is taken for a URL
// that lacks its scheme, where "page.html" is a file.
var domains = map[string]bool{
	"com": true, "org": true, "net": true, "edu": true, "gov": true, "io": true, "co": true, "info": true, "eu": true,
	"de": true, "at": true, "ch": true, "fr": true, "it": true, "es": true, "nl": true, "be": true, "dk": true,
	"se": true, "no": true, "fi": true, "uk": true, "ie": true, "us": true, "ca": true, "au": true, "nz": true,
}

// resolve gives the absolute URL of a reference in the page; nil if it is none
// of http or https.
func (d *document) resolve(ref string) *url.URL {
	ref = strings.TrimSpace(strings.NewReplacer("&amp;", "&", "&#038;", "&", "&#38;", "&").Replace(ref))
	if ref == "" || strings.ContainsAny(ref, "<>\n\"") {
		return nil
	}
	if host, _, _ := strings.Cut(ref, "/"); !strings.Contains(ref, "://") && !strings.Contains(host, ":") && isHost(host) {
		ref = "https://" + ref
	}
	u, err := d.base.Parse(ref)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil
	}
	return u
}

func isHost(s string) bool {
	labels := strings.Split(strings.ToLower(s), ".")
	return len(labels) > 1 && labels[0] != "" && !strings.Contains(s, " ") &&
		(labels[0] == "www" && len(labels) > 2 || domains[labels[len(labels)-1]])
}

// link is a URL as it is shown, "" for none.
func (d *document) link(ref string) string {
	u := d.resolve(ref)
	if u == nil {
		return ""
	}
	return identity.Clean(u)
}

// placeholders are the files that stand in for images that load later.
var placeholders = map[string]bool{"blank": true, "spacer": true, "placeholder": true, "pixel": true, "transparent": true, "loading": true}

// picture is the URL of an image, "" for what can't be one.
func (d *document) picture(ref string) string {
	u := d.resolve(ref)
	if u == nil || strings.HasSuffix(u.Path, "/") && u.RawQuery == "" {
		return ""
	}
	file := strings.ToLower(u.Path[strings.LastIndex(u.Path, "/")+1:])
	name, _, _ := strings.Cut(file, ".")
	if placeholders[name] {
		return ""
	}
	return identity.Clean(u)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
